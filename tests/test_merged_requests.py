"""Requests that a server merges into one batch get the answers that each gets alone.

TensorFlow Serving fills each tensor of a request up to the largest of the batch, along every axis
but the first, with that tensor's own first element, and concatenates.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import toys
from keras_crf import CRFLayer, export_tagger

LONGEST = 512
MOST_ROWS = 64


def merged(requests):
    """The batch that a server makes of requests, dicts of input name to array."""
    batch = {}
    for name in requests[0]:
        tensors = [request[name] for request in requests]
        largest = np.max([tensor.shape[1:] for tensor in tensors], axis=0)
        batch[name] = np.concatenate([filled_up(tensor, largest) for tensor in tensors])
    return batch


def filled_up(tensor, sizes):
    filled = np.full([len(tensor), *sizes.astype(int)], tensor.flat[0], tensor.dtype)
    filled[tuple(map(slice, tensor.shape))] = tensor
    return filled


def test_merging_fills_up_with_the_first_element():
    batch = merged([{"words": np.array([[7, 8, 9]])}, {"words": np.array([[1], [2]])}])
    np.testing.assert_array_equal(batch["words"], [[7, 8, 9], [1, 1, 1], [2, 1, 1]])


class Ids:
    """Words and their characters as ids, with a BiLSTM."""

    def __init__(self, directory):
        keras.utils.set_random_seed(3)
        words = keras.Input((None,), dtype="int32", name="words")
        characters = keras.Input((None, 4), dtype="int32", name="characters")
        by_word = keras.layers.Embedding(20, 3, mask_zero=True)(words)
        by_character = keras.ops.max(keras.layers.Embedding(9, 3)(characters), axis=2)
        features = keras.layers.Add()([by_word, by_character])
        bilstm = keras.layers.Bidirectional(keras.layers.LSTM(4, return_sequences=True))
        large = keras.initializers.RandomNormal(stddev=2)
        crf = CRFLayer(3, kernel_initializer=large, tag_names=toys.TEXT_TAGS)
        mask = words != 0  # which Add does not hand on
        tagged = crf(bilstm(features, mask=mask), mask=mask)
        export_tagger(keras.Model([words, characters], tagged), directory)
        self.loaded = tf.saved_model.load(directory)
        self.signatures = self.loaded.signatures

    def request(self, lengths, seed):
        random = np.random.default_rng(seed)
        shape = [len(lengths), max(lengths)]
        words = random.integers(1, 20, shape).astype("int32")
        characters = random.integers(1, 9, [*shape, 4]).astype("int32")
        return {"words": words, "characters": characters, "lengths": np.array(lengths, "int32")}


class Strings:
    """Words as they are."""

    def __init__(self, text_export):
        self.signatures = text_export.signatures

    def request(self, lengths, seed):
        return {"words": toys.texts(lengths, seed), "lengths": np.array(lengths, "int32")}


@pytest.fixture(scope="module", params=["ids", "strings"])
def served(request, tmp_path_factory):
    """(a function that makes requests, a function that answers them by one and the same export)."""
    if request.param == "ids":
        kind = Ids(str(tmp_path_factory.mktemp("merged") / "1"))
    else:
        kind = Strings(request.getfixturevalue("text_export"))

    def answer(inputs):
        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        outputs = kind.signatures["serving_default"](**tensors)
        return {name: value.numpy() for name, value in outputs.items()}

    return kind.request, answer


def assert_same_answers(answer, requests, alone):
    """The merged requests are answered as each is alone, as far as its own steps go."""
    together, row = answer(merged(requests)), 0
    for request, expected in zip(requests, alone, strict=True):
        rows, steps = request["words"].shape
        for name, value in together.items():
            mine = value[(slice(row, row + rows), *[slice(steps)] * (value.ndim - 1))]
            if value.dtype.kind == "f":
                np.testing.assert_allclose(mine, expected[name], rtol=1e-5, atol=1e-5)
            else:
                np.testing.assert_array_equal(mine, expected[name])
        row += rows
    behind = np.arange(together["tags"].shape[1]) >= merged(requests)["lengths"][:, np.newaxis]
    assert np.all(together["tags"][behind] == b"")
    assert not together["tag_ids"][behind].any()
    assert not together["confidence"][behind].any()


def test_requests_of_several_rows_of_all_lengths_f1_f2(served):
    make_request, answer = served
    lengths = [[1], [2, 1, 5], [40, 1], [3, 3, 3, 3], [9]]
    requests = [make_request(each, seed) for seed, each in enumerate(lengths)]
    alone = [answer(request) for request in requests]
    assert len({name for one in alone for name in one["tags"].flat}) > 2
    assert_same_answers(answer, requests, alone)


def test_one_export_serves_64_requests_of_1_to_512_steps_f6(served):
    make_request, answer = served
    steps = np.linspace(1, LONGEST, MOST_ROWS).astype(int)
    requests = [make_request([length], length) for length in steps]
    assert_same_answers(answer, requests, [answer(request) for request in requests])


@pytest.mark.slow
def test_one_export_serves_every_number_of_rows_and_of_steps_f6_f8(served):
    make_request, answer = served
    requests = [make_request([length], length) for length in range(1, LONGEST + 1)]
    alone = [answer(request) for request in requests]
    order = np.random.default_rng(0).permutation(LONGEST)
    taken = 0
    for rows in range(1, MOST_ROWS + 1):
        these = np.take(order, range(taken, taken + rows), mode="wrap")
        assert_same_answers(answer, [requests[i] for i in these], [alone[i] for i in these])
        taken += rows
    assert taken >= LONGEST


def convolutional(directory, is_masked):
    """An export of two convolutions, with padding set to 0 in front of each, or not."""
    keras.utils.set_random_seed(3)
    large = keras.initializers.RandomNormal(stddev=2)
    words = keras.Input((None,), dtype="int32", name="words")
    mask = words != 0
    features = keras.layers.Embedding(20, 4, embeddings_initializer=large)(words)
    for _ in range(2):
        if is_masked:
            features = features * keras.ops.cast(mask, "float32")[..., None]
        features = keras.layers.Conv1D(6, 3, padding="same", activation="relu")(features)
    crf = CRFLayer(3, kernel_initializer=large, tag_names=toys.TEXT_TAGS)
    export_tagger(keras.Model(words, crf(features, mask=mask)), directory)
    return tf.saved_model.load(directory)


@pytest.mark.parametrize("is_masked", [True, False])
def test_convolutions_read_no_padding_if_it_is_zero_in_front_of_each(tmp_path, is_masked):
    loaded = convolutional(str(tmp_path / "1"), is_masked)

    def answer(inputs):
        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        outputs = loaded.signatures["serving_default"](**tensors)
        return {name: value.numpy() for name, value in outputs.items()}

    words = [np.random.default_rng(n).integers(1, 20, [1, n]).astype("int32") for n in range(1, 13)]
    requests = [{"words": row, "lengths": np.array([row.size], "int32")} for row in words]
    alone = [answer(request) for request in requests]
    if is_masked:
        assert_same_answers(answer, requests, alone)
    else:  # what docs/serving.md warns of
        with pytest.raises(AssertionError):
            assert_same_answers(answer, requests, alone)


def test_unpadded_counts_what_a_server_fills_up_as_words(text_export):
    """Which docs/serving.md warns of."""
    unpadded = text_export.signatures["unpadded"]
    short = {"words": np.array([["New", "York"]], object)}
    long = {"words": toys.texts([40])}
    alone = unpadded(words=tf.constant(short["words"]))
    together = unpadded(words=tf.constant(merged([short, long])["words"]))
    assert together["tags"].shape == [2, 40]
    assert not np.any(together["tags"][0] == b"")
    assert abs(together["log_prob"][0] - alone["log_prob"][0]) > 1


class TestBadRequestsAmongOthers:
    """What docs/serving.md says of them: to the graph a batch is one request."""

    @pytest.fixture(scope="class")
    def kind(self, tmp_path_factory):
        return Ids(str(tmp_path_factory.mktemp("bad") / "1"))

    def answer(self, kind, *requests):
        tensors = {name: tf.constant(value) for name, value in merged(requests).items()}
        return kind.signatures["serving_default"](**tensors)

    def test_a_length_above_t_is_an_error_only_where_no_other_is_as_long(self, kind):
        bad = {**kind.request([2], 0), "lengths": np.array([5], "int32")}
        for others in ([], [kind.request([4], 1)]):
            with pytest.raises(tf.errors.InvalidArgumentError, match="lengths must lie in"):
                self.answer(kind, bad, *others)
        answer = self.answer(kind, bad, kind.request([5], 1))
        assert b"" not in answer["tags"][0].numpy()  # padding that was tagged as words

    @pytest.mark.parametrize("size", [3, 5])
    def test_another_fixed_size_is_padded_or_fails_all(self, kind, size):
        bad = kind.request([2], 0)
        bad["characters"] = np.ones([1, 2, size], "int32")
        message = rf"characters must have the shape \[batch, time, 4\].*\[1 2 {size}\]"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            self.answer(kind, bad)
        good = kind.request([2], 1)
        if size < 4:
            assert self.answer(kind, bad, good)["tags"].shape == [2, 2]
        else:
            with pytest.raises(tf.errors.InvalidArgumentError, match="characters must have"):
                self.answer(kind, bad, good)
