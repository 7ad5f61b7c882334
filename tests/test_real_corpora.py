"""The examples on real corpora, where they lie beside the checkout."""

import pathlib

import pytest

import columns
import report
import train_tagger

DATA = pathlib.Path(__file__).parents[2] / "shared" / "data"
COUNTS = {
    "afribooms_pos": (1315, 33878),
    "cltt_pos": (467, 13894),
    "lener_br": (7827, 229277),
    "turkish_twt_pos": (3881, 64707),
    "wnut17": (3394, 62730),
    "zh_gsdsimp": (3997, 156295),
}

pytestmark = pytest.mark.skipif(not DATA.exists(), reason="the real corpora are not here")


@pytest.mark.parametrize("name", COUNTS)
def test_reads_every_sentence_and_token(name):
    sentences = columns.read_columns(DATA / name / "train.tsv")
    assert (len(sentences), sum(len(tokens) for tokens, _ in sentences)) == COUNTS[name]


@pytest.mark.parametrize("name", ["lener_br", "wnut17", "zh_gsdsimp"])
def test_finds_no_illegal_sequence_in_the_gold_tags(name):
    sentences = columns.read_columns(DATA / name / "train.tsv")
    assert report.count_illegal([tags for _, tags in sentences], "BIO") == 0


@pytest.mark.slow
def test_a_crf_beats_softmax_on_legal_entities():
    train = columns.read_columns(DATA / "lener_br" / "train.tsv")[:2000]
    dev = columns.read_columns(DATA / "lener_br" / "dev.tsv")
    f1 = {}
    for softmax in (True, False):
        settings = train_tagger.Settings(epochs=3, softmax=softmax)
        model, tag_names = train_tagger.train_tagger(train, dev, settings, verbose=0)
        f1[softmax], _ = train_tagger.evaluate_tagger(model, tag_names, dev, "dev", "BIO")
    assert f1[False] > max(0.4, f1[True] + 0.03)
