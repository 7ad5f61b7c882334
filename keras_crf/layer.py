"""CRFLayer: a linear-chain CRF in the place of `Dense(num_tags, activation="softmax")`."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_crf import checks, layer_checks, layer_weights, schemes
from keras_crf.carrying import carry, let_ride, riding_mask
from keras_crf.compile_checks import check_compiled
from keras_crf.distribution import LinearChainCRF
from keras_crf.lost_mask import warn_where_lost
from keras_crf.retracing import trace_again
from keras_crf.rules import ILLEGAL_GOLD, Rules
from keras_crf.tensor_like import TensorLike

DECODED_MODES = ("one_hot", "int")
OUTPUT_MODES = (*DECODED_MODES, "marginals", "potentials")


@keras.saving.register_keras_serializable(package="keras_crf")
class CRFLayer(keras.layers.Layer):
    """A linear-chain CRF over features [B, T, D], to be trained with `CRFLoss`.

        potentials = features @ kernel + bias
        score(y) = start[y_1] + sum_t potentials[t, y_t]
                   + sum_{t>1} transitions[y_{t-1}, y_t] + end[y_n]

    `transitions[i, j]` is from tag i to tag j. There is no activation to put before it, and no
    `Dense(num_tags)` unless `use_kernel=False`.

    Masking: the mask that rides on the features is used, or the one given to `call`, which goes
    before it; `lengths` [B] narrows either. A dropped step is skipped, wherever it stands: the
    chain runs over the kept steps as if the others were not there. There is a warning where a mask
    is lost on the way to the layer: when a functional or Sequential model is built, and when a
    subclassed one is first traced, by `fit` or `predict`. It does not find every loss in subclassed
    models. `distribution_of(model(x)).mask` is what the layer has used.

    In every mode the output carries its `LinearChainCRF`, which `CRFLoss` and `distribution_of`
    read: it must be the tensor that this layer returned, with no layer behind it.

    Args:
        num_tags: K, the number of tags; tag ids are 0..K-1. Left out, it is the number of
            `tag_names`.
        output_mode: what `call` returns:
            "one_hot": float [B, T, K], the Viterbi path, zeros on dropped steps, so that
                `metrics=["accuracy"]` and `.argmax(-1)` work as they do for softmax;
            "int": int32 [B, T], the Viterbi path, `pad_tag` on dropped steps;
            "marginals": float [B, T, K], p(y_t = k), zeros on dropped steps;
            "potentials": float [B, T, K], the scores, zeros on dropped steps.
        use_kernel: whether to project the features; without, they are the potentials and D is K.
        use_boundary: whether `start` and `end` are learned; without, they are zero.
        tag_names: the K names of the tags, saved with the model. `export_tagger` and `plot` use
            them.
        scheme: the name of the tag scheme that the names are written in, such as "BIO"; or rules of
            your own, bool `(transitions [K, K], start [K], end [K])`. What they rule out has
            probability 0, exactly, in the loss, in every decoder, in marginals, in samples and in
            the exported model: -inf is added to what the weights say, and no weight is changed.
            See `LinearChainCRF.constrained`, `tags.allowed_transitions`. It may be set later,
            `layer.scheme = "BIO"`, as may `illegal_gold` and `tag_names`. Calls, `fit`, `evaluate`,
            `predict`, saved models and exports that follow keep the new scheme. A `tf.function` of
            your own that has called the layer keeps the old one: make it again.
        unused_tags: those of the `tag_names` that no sequence holds, such as "PAD" or "[CLS]". They
            have probability 0, with a scheme and without, and need not be names of the scheme.
        illegal_gold: what is done about true tags that break the scheme:
            "raise": `CRFLoss` refuses them, naming row, step and both tags. (XLA cannot raise, and
                Keras compiles by it where there is a GPU: then the loss is NaN. See it named with
                `compile(jit_compile=False)`.)
            "allow": they say nothing where they break it, and the rest of the row is learned from:
                of two tags that may not follow each other neither is taken for known, and no first
                or last tag that may not be that; nothing is, where that leaves no legal path. Such
                losses cost as those of partial labels do.
        pad_tag: what `output_mode="int"` says on dropped steps.
        lr_multiplier: how many times faster than the rest of the model transitions, start and end
            are trained, under any optimizer. The variables hold the scores divided by it. Files
            hold it too, so that weights loaded under another `lr_multiplier` give the same scores;
            `set_weights` takes the variables as they are.
        jit_compile: whether the loss and its gradient are compiled by XLA, by themselves, in a
            model that need not be: faster steps for some seconds of compilation at each new batch
            size and each of a few numbers of steps. What `call` returns is never compiled, so that
            exports run anywhere. Under `compile(jit_compile=True)` all is compiled as it is.
        kernel_initializer, bias_initializer, transitions_initializer, boundary_initializer,
        kernel_regularizer, bias_regularizer, transitions_regularizer, boundary_regularizer,
        kernel_constraint, bias_constraint, transitions_constraint, boundary_constraint:
            as in other Keras layers; boundary means start and end. What is regularized and
            constrained is the weight as it is stored.

    Raises:
        ValueError: `num_tags` below 1, or neither it nor `tag_names`; an unknown `output_mode`; an
            argument of another CRF library; `tag_names` that are not K different names; a `scheme`
            that is not theirs or under which rows of some length have no legal path (the shortest
            is named); on call: features that are not [B, T, D], or not K wide with
            `use_kernel=False`, and masks or lengths that do not go with them.
        TypeError: features that are not floating point.

    Source: Lafferty, McCallum and Pereira, "Conditional Random Fields", 2001; on top of a BiLSTM:
    Huang, Xu and Yu, "Bidirectional LSTM-CRF Models for Sequence Tagging", 2015.

    >>> model = keras.Sequential([
    ...     keras.layers.Embedding(50, 8, mask_zero=True), CRFLayer(3)])
    >>> model.compile("adam", loss=CRFLoss(), metrics=["accuracy"])
    >>> model.predict(np.array([[7, 2, 9, 0]]), verbose=0).argmax(-1).shape
    (1, 4)
    """

    def __init__(
        self,
        num_tags: int | None = None,
        *,
        output_mode: str = "one_hot",
        use_kernel: bool = True,
        use_boundary: bool = True,
        tag_names: Iterable[str] | None = None,
        scheme: str | tuple | list | None = None,
        unused_tags: Iterable[str] = (),
        illegal_gold: str = "raise",
        pad_tag: int = 0,
        lr_multiplier: float = 1.0,
        jit_compile: bool = False,
        kernel_initializer: str | dict | keras.initializers.Initializer = "glorot_uniform",
        bias_initializer: str | dict | keras.initializers.Initializer = "zeros",
        transitions_initializer: str | dict | keras.initializers.Initializer = "glorot_uniform",
        boundary_initializer: str | dict | keras.initializers.Initializer = "zeros",
        kernel_regularizer: str | dict | keras.regularizers.Regularizer | None = None,
        bias_regularizer: str | dict | keras.regularizers.Regularizer | None = None,
        transitions_regularizer: str | dict | keras.regularizers.Regularizer | None = None,
        boundary_regularizer: str | dict | keras.regularizers.Regularizer | None = None,
        kernel_constraint: str | dict | keras.constraints.Constraint | None = None,
        bias_constraint: str | dict | keras.constraints.Constraint | None = None,
        transitions_constraint: str | dict | keras.constraints.Constraint | None = None,
        boundary_constraint: str | dict | keras.constraints.Constraint | None = None,
        **kwargs: Any,
    ) -> None:
        layer_checks.no_arguments_of_other_libraries(kwargs)
        super().__init__(**kwargs)
        self.rules: Rules | None = None
        self.num_tags, self.tag_names = layer_checks.number_of_tags(num_tags, tag_names)
        self.output_mode = layer_checks.one_of(output_mode, OUTPUT_MODES, "output_mode")
        self.use_kernel = use_kernel
        self.use_boundary = use_boundary
        self.unused_tags = tuple(schemes.unused_among(unused_tags, self.tag_names))
        self._set_rules(scheme)  # TensorFlow would skip `self.scheme = None`, as no change
        self.illegal_gold = illegal_gold
        self.pad_tag = pad_tag
        if not lr_multiplier > 0:
            raise ValueError(f"lr_multiplier must be above 0, got {lr_multiplier}.")
        self.lr_multiplier = lr_multiplier
        self.jit_compile = jit_compile
        layer_weights.set_on(self, locals())
        self.supports_masking = True

    @property
    def tag_names(self) -> list[str] | None:
        """The K names of the tags, or None."""
        return None if self._tag_names is None else list(self._tag_names)

    @tag_names.setter
    def tag_names(self, tag_names: Iterable[str] | None) -> None:
        names = checks.tag_names(tag_names, self.num_tags)
        self._tag_names = None if names is None else tuple(names)  # Keras replaces lists
        if self.rules is not None:
            self._set_rules(self.scheme)

    @property
    def scheme(self) -> str | tuple | None:
        """The scheme, which the layer and the models that it is in keep from when it is set."""
        return None if self.rules is None else self.rules.scheme

    @scheme.setter
    def scheme(self, scheme: str | tuple | list | None) -> None:
        self._set_rules(scheme)

    def _set_rules(self, scheme):
        rules = (scheme, self.tag_names, self.num_tags, self.unused_tags)
        self.rules = None if scheme is None and not self.unused_tags else Rules(*rules)
        trace_again(self)

    @property
    def illegal_gold(self) -> str:
        """What is done about true tags that break the scheme; may be set like `scheme`."""
        return self._illegal_gold

    @illegal_gold.setter
    def illegal_gold(self, illegal_gold: str) -> None:
        self._illegal_gold = layer_checks.one_of(illegal_gold, ILLEGAL_GOLD, "illegal_gold")
        trace_again(self)

    def build(self, input_shape: Sequence[int | None]) -> None:
        width = layer_checks.width(input_shape)
        if self.use_kernel:
            self.kernel = layer_weights.add(self, "kernel", [width, self.num_tags], "kernel")
            self.bias = layer_weights.add(self, "bias", [self.num_tags], "bias")
        elif width != self.num_tags:
            raise ValueError(
                f"CRFLayer({self.num_tags}, use_kernel=False) takes potentials, [batch, time, "
                f"{self.num_tags}]; got features of the shape {tuple(input_shape)}. Put "
                f"Dense({self.num_tags}) before the layer, or leave use_kernel=True."
            )
        self.transitions = layer_weights.add(
            self, "transitions", [self.num_tags] * 2, "transitions"
        )
        if self.use_boundary:
            self.start = layer_weights.add(self, "start", [self.num_tags], "boundary")
            self.end = layer_weights.add(self, "end", [self.num_tags], "boundary")
        self.input_spec = keras.layers.InputSpec(axes={-1: width})

    def save_own_variables(self, store: Any) -> None:
        super().save_own_variables(store)
        layer_weights.save_multiplier(self, store)

    def load_own_variables(self, store: Any) -> None:
        """Loads weights so that the scores are the same under another `lr_multiplier`."""
        weights, multiplier = layer_weights.loaded(self, store)
        super().load_own_variables(weights)
        layer_weights.rescale(self, multiplier)

    def call(
        self, inputs: TensorLike, mask: TensorLike | None = None, lengths: TensorLike | None = None
    ) -> tf.Tensor:
        check_compiled(self, self.output_mode in DECODED_MODES)
        scores = self._scores(inputs, mask, lengths, jit_compile=False)
        distribution = self._constrained(scores)
        outputs = self._outputs(scores, distribution)
        if mask is not None or lengths is not None:
            let_ride(distribution.mask, outputs)  # metrics leave out what the CRF left out
        decoded = self.output_mode in DECODED_MODES
        distribution = distribution.compiled() if self.jit_compile else distribution
        return carry(outputs, distribution, decoded, self._under_rules())

    def distribution(
        self,
        features: TensorLike,
        mask: TensorLike | None = None,
        lengths: TensorLike | None = None,
        jit_compile: bool | None = None,
    ) -> LinearChainCRF:
        """The `LinearChainCRF` of these features, for custom training loops.

        Args:
            features: float [B, T, D].
            mask: bool or 0-1 [B, T]; left out, the mask that rides on the features.
            lengths: integer [B].
            jit_compile: as the layer's own, which it replaces here.

        >>> layer = CRFLayer(3)
        >>> layer.distribution(tf.zeros([2, 4, 8]), lengths=[4, 1]).log_prob(
        ...     tf.zeros([2, 4], tf.int32)).shape
        TensorShape([2])
        """
        jit_compile = self.jit_compile if jit_compile is None else jit_compile
        return self._constrained(self._scores(features, mask, lengths, jit_compile))

    def _constrained(self, scores):
        return scores if self.rules is None else scores.constrained(self.rules.allowed)

    def _under_rules(self):
        """How the loss applies the scheme to true tags, or None without one."""
        if self.rules is None:
            return None
        return functools.partial(self.rules.applied, illegal_gold=self.illegal_gold)

    def _scores(self, features, mask, lengths, jit_compile):
        """The `LinearChainCRF` of these features without the rules of the scheme."""
        riding = riding_mask(features)
        features = checks.tensor(features, "features")
        checks.rank(features, "features", "[batch, time, features]")
        if not self.built:
            self.build(features.shape)
        mask = riding if mask is None else mask
        if mask is None and lengths is None:
            warn_where_lost(features, self)
        if mask is not None or lengths is not None:
            # The kernel's gradient is a product with the features: of NaN with 0, it would be NaN.
            kept, _ = checks.mask_and_lengths(mask, lengths, features)
            features = tf.where(tf.expand_dims(kept, -1), features, tf.zeros_like(features))
        transitions, start, end = layer_weights.scores(self)
        return LinearChainCRF(
            self._potentials(features),
            transitions,
            start=start,
            end=end,
            mask=mask,
            lengths=lengths,
            jit_compile=jit_compile,
        )

    def _potentials(self, features):
        if not self.use_kernel:
            return features
        if not features.dtype.is_floating:
            raise TypeError(f"features must be floating point, got {features.dtype.name}.")
        features = tf.cast(features, self.compute_dtype)
        kernel, bias = (tf.cast(weight, features.dtype) for weight in (self.kernel, self.bias))
        return tf.matmul(features, kernel) + bias

    def _outputs(self, scores, distribution):
        if self.output_mode == "potentials":
            return tf.identity(scores.potentials)
        if self.output_mode == "marginals":
            return distribution.marginals()
        tags = distribution.argmax().tags
        if self.output_mode == "int":
            return tf.where(distribution.mask, tags, self.pad_tag)
        on_kept = tf.where(distribution.mask, tags, self.num_tags)  # of which one_hot is zeros
        return tf.one_hot(on_kept, self.num_tags, dtype=distribution.potentials.dtype)

    def compute_output_shape(
        self, input_shape: Sequence[int | None], **kwargs: Any
    ) -> tuple[int | None, ...]:
        layer_checks.width(input_shape)
        tags = () if self.output_mode == "int" else (self.num_tags,)
        return (*input_shape[:2], *tags)

    def compute_output_spec(
        self, inputs: keras.KerasTensor, mask: Any = None, lengths: Any = None, **kwargs: Any
    ) -> keras.KerasTensor:
        if lengths is None and mask is riding_mask(inputs):
            warn_where_lost(inputs, self)
        # Traced, since the dtype depends on the output mode and not on the policy alone.
        given = {"mask": mask, "lengths": lengths, **kwargs}
        inputs, given = keras.tree.map_structure(layer_checks.as_dense, (inputs, given))
        return keras.Operation.compute_output_spec(self, inputs, **given)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_tags": self.num_tags,
            "output_mode": self.output_mode,
            "use_kernel": self.use_kernel,
            "use_boundary": self.use_boundary,
            "tag_names": self.tag_names,
            "scheme": None if self.rules is None else self.rules.config(),
            "unused_tags": list(self.unused_tags),
            "illegal_gold": self.illegal_gold,
            "pad_tag": self.pad_tag,
            "lr_multiplier": self.lr_multiplier,
            "jit_compile": self.jit_compile,
            **layer_weights.config(self),
        }
