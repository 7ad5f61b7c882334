"""Linear-chain conditional random fields for TensorFlow and Keras 3."""

from keras_crf import (
    backend as backend,  # first: refuses to run without TensorFlow
    convert as convert,
    crf as crf,
    plot as plot,  # imports Matplotlib when it draws
    tags as tags,
)
from keras_crf.carrying import distribution_of as distribution_of
from keras_crf.distribution import LinearChainCRF as LinearChainCRF
from keras_crf.export import export_tagger as export_tagger
from keras_crf.layer import CRFLayer as CRFLayer
from keras_crf.loss import CRFLoss as CRFLoss, crf_loss as crf_loss
from keras_crf.metrics import (
    SequenceAccuracy as SequenceAccuracy,
    SpanF1 as SpanF1,
    TagAccuracy as TagAccuracy,
)
