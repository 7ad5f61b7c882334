"""Converted weights against the arithmetic of the libraries that they come from."""

import pathlib
import re

import numpy as np
import pytest

import originals
from keras_crf import CRFLayer, LinearChainCRF
from keras_crf.convert import (
    Weights,
    from_bos_eos,
    from_keras_contrib,
    from_pytorch_crf,
    from_tfa,
)
from oracle import all_paths
from test_readme import printed

BATCH, STEPS, WIDTH, TAGS = 6, 4, 5, 3
LENGTHS = np.array([4, 1, 2, 3, 4, 2])
PADDED = np.arange(STEPS) < LENGTHS[:, np.newaxis]
PATHS = all_paths(STEPS, TAGS)


def draw(*shape):
    return np.random.normal(size=shape)


def features():
    return draw(BATCH, STEPS, WIDTH)


def random_tags():
    return np.random.randint(0, TAGS, [BATCH, STEPS])


def everywhere(tags):
    return np.ones(tags.shape, bool)


def chain(weights, inputs, mask=None):
    """Our distribution over features, or over potentials where the weights have no kernel."""
    potentials = inputs if weights.kernel is None else inputs @ weights.kernel + weights.bias
    transitions, start, end = weights[2:]
    return LinearChainCRF(potentials, transitions, start=start, end=end, mask=mask)


def turned(weights):
    """What the weights would be with the transitions the wrong way round."""
    return weights._replace(transitions=weights.transitions.T)


def swapped(weights):
    """What the weights would be with start and end mistaken for each other."""
    return weights._replace(start=weights.end, end=weights.start)


def differ(some, others):
    return np.abs(some - others).max() > 0.01


class SameNumbers:
    """What holds of every source. A subclass sets, in `setup_method`,

    weights: what was converted
    inputs(rows): random features, or potentials where the source has no kernel
    original(inputs, tags, mask): the log-probability [B] as the source computes it
    """

    mistakes = (turned, swapped)

    def inputs(self, rows=BATCH):
        return draw(rows, STEPS, TAGS if self.weights.kernel is None else WIDTH)

    def ours(self, weights, inputs, tags, mask):
        return chain(weights, inputs, mask).log_prob(tags).numpy()

    def test_all_paths_have_the_log_probabilities_of_the_original(self):
        inputs = np.repeat(self.inputs(rows=1), len(PATHS), axis=0)
        expected = self.original(inputs, PATHS, everywhere(PATHS))
        np.testing.assert_allclose(np.exp(expected).sum(), 1, atol=1e-9)
        result = self.ours(self.weights, inputs, PATHS, everywhere(PATHS))
        np.testing.assert_allclose(result, expected, atol=1e-9)

    def test_padded_rows_have_the_log_probabilities_of_the_original(self):
        inputs, tags = self.inputs(), random_tags()
        result = self.ours(self.weights, inputs, tags, PADDED)
        np.testing.assert_allclose(result, self.original(inputs, tags, PADDED), atol=1e-9)

    def test_wrong_meanings_would_be_seen(self):
        inputs, tags = self.inputs(), random_tags()
        expected = self.original(inputs, tags, PADDED)
        for mistake in self.mistakes:
            assert differ(self.ours(mistake(self.weights), inputs, tags, PADDED), expected)

    @pytest.mark.parametrize("lr_multiplier", [1.0, 20.0, 0.5])
    def test_a_layer_with_these_weights_scores_as_the_original(self, lr_multiplier):
        inputs, tags = self.inputs(), random_tags()
        layer = CRFLayer(
            TAGS, use_kernel=self.weights.kernel is not None, lr_multiplier=lr_multiplier
        )
        layer.build(inputs.shape)
        self.weights.assign_to(layer)
        result = layer.distribution(inputs.astype("float32"), mask=PADDED).log_prob(tags)
        np.testing.assert_allclose(result, self.original(inputs, tags, PADDED), atol=2e-5)


class TestTfa(SameNumbers):
    def setup_method(self):
        source = draw(TAGS, TAGS), draw(TAGS), draw(TAGS), draw(WIDTH, TAGS), draw(TAGS)
        self.original = originals.TensorflowAddons(*source).log_likelihood
        self.weights = from_tfa(list(source))


class TestTfaWithoutKernel(SameNumbers):
    def setup_method(self):
        source = draw(TAGS, TAGS), draw(TAGS), draw(TAGS)
        self.original = originals.TensorflowAddons(*source).log_likelihood
        self.weights = from_tfa(list(source))


class TestTfaWithoutBoundaries(SameNumbers):
    """And tf2crf, which lists transitions, then its Dense layer."""

    mistakes = (turned,)

    def setup_method(self):
        chain_kernel, kernel, bias = draw(TAGS, TAGS), draw(WIDTH, TAGS), draw(TAGS)
        source = originals.TensorflowAddons(chain_kernel, kernel=kernel, bias=bias)
        self.original = source.log_likelihood
        self.weights = from_tfa([chain_kernel, kernel, bias])

    def test_start_and_end_are_zeros(self):
        np.testing.assert_array_equal(self.weights[3:], np.zeros([2, TAGS]))


class TestTfaWithoutBoth(SameNumbers):
    mistakes = (turned,)

    def setup_method(self):
        chain_kernel = draw(TAGS, TAGS)
        self.original = originals.TensorflowAddons(chain_kernel).log_likelihood
        self.weights = from_tfa([chain_kernel])


class TestTfaByName(SameNumbers):
    def setup_method(self):
        left, right, kernel, bias = draw(TAGS), draw(TAGS), draw(WIDTH, TAGS), draw(TAGS)
        source = originals.TensorflowAddons(draw(TAGS, TAGS), left, right, kernel, bias)
        self.original = source.log_likelihood
        self.weights = from_tfa(
            {
                "crf/dense/bias:0": bias,
                "crf/dense/kernel:0": kernel,
                "right_boundary:0": right,
                "left_boundary:0": left,
                "chain_kernel:0": source.chain_kernel,
            }
        )


def without_sign(weights):
    """What the weights would be if energies were scores."""
    return Weights(*(-part for part in weights))


def contrib_source():
    return draw(WIDTH, TAGS), draw(TAGS, TAGS), draw(TAGS), draw(TAGS), draw(TAGS)


class TestKerasContrib(SameNumbers):
    mistakes = (turned, swapped, without_sign)

    def setup_method(self):
        source = contrib_source()
        self.crf = originals.KerasContrib(*source)
        self.weights = from_keras_contrib(list(source), masked=True)

    def original(self, inputs, tags, mask):
        """Its loss is a mean over tokens, and too high by log K for each dropped step."""
        tokens = mask.sum(axis=1)
        dropped = mask.shape[1] - tokens
        return dropped * np.log(TAGS) - self.crf.loss(inputs, tags, mask) * tokens

    def test_rows_padded_on_the_left_have_the_log_probabilities_of_the_original(self):
        inputs, tags, mask = self.inputs(), random_tags(), PADDED[:, ::-1]
        result = self.ours(self.weights, inputs, tags, mask)
        np.testing.assert_allclose(result, self.original(inputs, tags, mask), atol=1e-9)

    def test_best_paths_are_those_of_the_original(self):
        inputs = self.inputs()
        best = chain(self.weights, inputs, PADDED).argmax().tags.numpy()
        np.testing.assert_array_equal(best[PADDED], self.crf.viterbi(inputs, PADDED)[PADDED])


class TestKerasContribWithoutBias(TestKerasContrib):
    def setup_method(self):
        kernel, chain_kernel, _, left, right = contrib_source()
        self.crf = originals.KerasContrib(kernel, chain_kernel, left=left, right=right)
        self.weights = from_keras_contrib([kernel, chain_kernel, left, right], masked=True)

    def test_the_bias_is_zeros(self):
        np.testing.assert_array_equal(self.weights.bias, np.zeros(TAGS))


class TestKerasContribWithoutBoundaries(TestKerasContrib):
    mistakes = (turned, without_sign)

    def setup_method(self):
        kernel, chain_kernel, bias = contrib_source()[:3]
        self.crf = originals.KerasContrib(kernel, chain_kernel, bias)
        self.weights = from_keras_contrib([kernel, chain_kernel, bias], masked=True)


class TestKerasContribWithoutMask:
    @pytest.fixture(params=[3, 5], ids=["without boundaries", "with boundaries"])
    def source(self, request):
        return contrib_source()[: request.param]

    def test_log_partition_and_best_paths_are_those_of_the_original(self, source):
        inputs, crf = features(), originals.KerasContrib(*source)
        ours = chain(from_keras_contrib(list(source), masked=False), inputs)
        np.testing.assert_allclose(ours.log_partition(), crf.log_z(inputs, None), atol=1e-9)
        np.testing.assert_array_equal(ours.argmax().tags, crf.viterbi(inputs))

    def test_its_loss_leaves_the_step_too_many_out_of_the_score(self, source):
        inputs, tags, crf = features(), random_tags(), originals.KerasContrib(*source)
        ours = chain(from_keras_contrib(list(source), masked=False), inputs)
        expected = ours.log_prob(tags) + crf.chain_kernel[tags[:, -1], 0]
        np.testing.assert_allclose(-crf.loss(inputs, tags) * STEPS, expected, atol=1e-9)

    def test_the_mask_makes_a_difference(self, source):
        inputs = features()
        chains = [chain(from_keras_contrib(source, masked=masked), inputs) for masked in (0, 1)]
        assert differ(*(each.log_partition().numpy() for each in chains))

    def test_names_do_as_well_as_the_order(self):
        source = contrib_source()
        names = ("kernel", "chain_kernel", "bias", "left_boundary", "right_boundary")
        named = {f"crf_1/{name}:0": array for name, array in zip(names, source, strict=True)}
        listed = from_keras_contrib(source, masked=False)
        for part, expected in zip(from_keras_contrib(named, masked=False), listed, strict=True):
            np.testing.assert_array_equal(part, expected)


class TestPytorchCRF(SameNumbers):
    prefix = ""

    def setup_method(self):
        start, end, transitions = draw(TAGS), draw(TAGS), draw(TAGS, TAGS)
        self.original = originals.PytorchCRF(start, end, transitions).log_likelihood
        self.weights = from_pytorch_crf(
            {
                f"{self.prefix}start_transitions": start,
                f"{self.prefix}end_transitions": end,
                f"{self.prefix}transitions": transitions,
                "lstm.weight_ih_l0": draw(4, 4),
                "hidden2tag.weight": draw(TAGS, WIDTH),
            }
        )


class TestPytorchCRFInAModel(TestPytorchCRF):
    prefix = "module.tagger.crf."


class TestPytorchCRFWithItsLinear(SameNumbers):
    def setup_method(self):
        start, end, transitions = draw(TAGS), draw(TAGS), draw(TAGS, TAGS)
        self.crf = originals.PytorchCRF(start, end, transitions)
        self.weight, self.bias = draw(TAGS, WIDTH), draw(TAGS)
        weights = from_pytorch_crf(
            {"transitions": transitions, "start_transitions": start, "end_transitions": end}
        )
        self.weights = weights._replace(kernel=self.weight.T, bias=self.bias)

    def original(self, inputs, tags, mask):
        return self.crf.log_likelihood(inputs @ self.weight.T + self.bias, tags, mask)


class HelperTags(SameNumbers):
    """CRFs that count BOS, EOS and maybe PAD as tags, and give them potentials as well."""

    def with_helpers(self, inputs):
        """Potentials [B, T, K] among random ones of the helper tags."""
        everything = draw(*inputs.shape[:2], TAGS + len(self.helpers))
        everything[:, :, self.tags] = inputs
        return everything

    @property
    def tags(self):
        size = TAGS + len(self.helpers)
        return np.array([tag for tag in range(size) if tag not in self.helpers.values()])

    def matrix(self):
        """Rows are from: nothing leads into BOS, out of EOS, to or from PAD but PAD itself."""
        size = TAGS + len(self.helpers)
        matrix = draw(size, size)
        matrix[:, self.helpers["bos"]] = -10000
        matrix[self.helpers["eos"], :] = -10000
        if "pad" in self.helpers:
            matrix[self.helpers["pad"], :] = matrix[:, self.helpers["pad"]] = -10000
            matrix[self.helpers["pad"], self.helpers["pad"]] = 0
        return matrix


class TestPytorchTutorial(HelperTags):
    helpers = {"bos": 3, "eos": 4}

    def setup_method(self):
        matrix = self.matrix().T
        self.crf = originals.PytorchTutorial(matrix, start=3, stop=4)
        self.weights = from_bos_eos(matrix, **self.helpers, rows="to")

    def original(self, inputs, tags, mask):
        sentences = zip(self.with_helpers(inputs), tags, mask.sum(axis=1), strict=True)
        return np.array([self.crf.log_likelihood(row[:n], tag[:n]) for row, tag, n in sentences])


class TestPytorchTutorialWithHelpersAnywhere(TestPytorchTutorial):
    helpers = {"bos": 2, "eos": 0}

    def setup_method(self):
        matrix = self.matrix().T
        self.crf = originals.PytorchTutorial(matrix, start=2, stop=0)
        self.weights = from_bos_eos(matrix, bos=-3, eos=-5, rows="to")

    def original(self, inputs, tags, mask):
        return super().original(inputs, self.tags[tags], mask)


class TestRowsFrom(HelperTags):
    helpers = {"bos": 1, "eos": 2}
    crf, rows = originals.BatchedFrom, "from"

    def setup_method(self):
        matrix = self.matrix() if self.rows == "from" else self.matrix().T
        self.source = self.crf(matrix, self.helpers["bos"], self.helpers["eos"])
        self.weights = from_bos_eos(matrix, **self.helpers, rows=self.rows)

    def original(self, inputs, tags, mask):
        return self.source.log_likelihood(self.with_helpers(inputs), self.tags[tags], mask)


class TestRowsFromWithPad(TestRowsFrom):
    helpers = {"pad": 0, "bos": 1, "eos": 2}

    def matrix(self):
        matrix = super().matrix()
        matrix[self.helpers["pad"], self.helpers["eos"]] = 0
        return matrix


class TestRowsTo(TestRowsFrom):
    helpers = {"bos": 4, "eos": 1}
    crf, rows = originals.BatchedTo, "to"


class TestRowsToWithPad(TestRowsTo):
    helpers = {"pad": 3, "bos": 5, "eos": 0}

    def matrix(self):
        matrix = super().matrix()
        matrix[self.helpers["eos"], self.helpers["pad"]] = 0
        return matrix


class TestTheTagsThatAreLeft:
    # PAD 0, A 1, BOS 2, B 3, EOS 4; [i, j] = 10 i + j where neither is dropped.
    MATRIX = np.array(
        [
            [0, -1e4, -1e4, -1e4, 0],
            [-1e4, 11, -1e4, 13, 14],
            [-1e4, 21, -1e4, 23, -1e4],
            [-1e4, -1e4, -1e4, 33, 34],
            [-1e4, -1e4, -1e4, -1e4, -1e4],
        ]
    )

    @pytest.mark.parametrize("rows", ["from", "to"])
    def test_they_keep_their_order_and_their_finite_forbidding_scores(self, rows):
        matrix = self.MATRIX if rows == "from" else self.MATRIX.T
        weights = from_bos_eos(matrix, bos=2, eos=4, pad=0, rows=rows)
        np.testing.assert_array_equal(weights.transitions, [[11, 13], [-1e4, 33]])
        np.testing.assert_array_equal(weights.start, [21, 23])
        np.testing.assert_array_equal(weights.end, [14, 34])
        assert weights.kernel is None
        assert weights.bias is None

    def test_a_linear_layer_before_them_loses_the_outputs_of_the_others(self):
        weights = from_bos_eos(self.MATRIX, bos=2, eos=4, pad=0, rows="from")
        linear = draw(5, WIDTH)
        kernel = np.delete(linear, [2, 4, 0], axis=0).T
        weights = weights._replace(kernel=kernel, bias=np.zeros(2))
        inputs = draw(1, STEPS, WIDTH)
        potentials = chain(weights, inputs).potentials
        np.testing.assert_allclose(potentials, (inputs @ linear.T)[:, :, [1, 3]], atol=1e-12)


def bad(call, kind, *words):
    with pytest.raises(kind) as error:
        call()
    for word in words:
        assert word in str(error.value)


class TestBadArrays:
    def test_a_list_of_another_layer(self):
        words = (
            "a tfa.layers.CRF has the weights chain_kernel, left_boundary, right_boundary, kernel",
            "Got arrays of the shapes [(5, 3), (3,)].",
            "Pass get_weights() of that layer and of no other",
        )
        bad(lambda: from_tfa([draw(5, 3), draw(3)]), ValueError, *words)

    @pytest.mark.parametrize("convert", [from_tfa, lambda w: from_keras_contrib(w, masked=True)])
    def test_an_empty_list(self, convert):
        bad(lambda: convert([]), ValueError, "Got arrays of the shapes [].")

    def test_a_list_of_keras_contrib_for_one_of_tfa(self):
        words = ("chain_kernel must have the shape (3, 3)", "got (5, 3)")
        bad(lambda: from_tfa([draw(5, 3), draw(3, 3), draw(3)]), ValueError, *words)

    @pytest.mark.parametrize(
        "names",
        [
            ("chain_kernel:0", "left_boundary:0"),
            ("chain_kernel:0", "kernel:0"),
            ("chain_kernel:0", "left_boundry:0", "right_boundary:0"),
            ("a/chain_kernel:0", "b/chain_kernel:0"),
            ("kernel:0",),
            (),
        ],
    )
    def test_names_that_are_unknown_missing_or_twice_there(self, names):
        weights = {name: draw(3, 3) for name in names}
        bad(lambda: from_tfa(weights), ValueError, f"Got the names {list(names)}.", "by name")

    @pytest.mark.parametrize(
        ("name", "shape", "wanted"),
        [
            ("chain_kernel", (2, 3), "(3, 3)"),
            ("left_boundary", (4,), "(3,)"),
            ("right_boundary", (3, 1), "(3,)"),
            ("kernel", (5, 4), "(5, 3)"),
            ("kernel", (3,), "(3, 3)"),
            ("bias", (), "(3,)"),
        ],
    )
    def test_shapes_that_do_not_go_together(self, name, shape, wanted):
        vectors = ("left_boundary", "right_boundary", "bias")
        shapes = {"chain_kernel": (3, 3), "kernel": (5, 3)} | dict.fromkeys(vectors, (3,))
        weights = {name: draw(*shape) for name, shape in (shapes | {name: shape}).items()}
        words = (f"{name} must have the shape {wanted}, as chain_kernel", f"got {shape}.")
        bad(lambda: from_keras_contrib(weights, masked=True), ValueError, *words)

    def test_a_scalar_for_a_matrix(self):
        words = ("chain_kernel must have the shape (1, 1)", "got ().")
        bad(lambda: from_tfa({"chain_kernel": 1.0}), ValueError, *words)

    def test_nan(self):
        words = ("chain_kernel must hold numbers, got NaN",)
        bad(lambda: from_tfa([np.full([3, 3], np.nan)]), ValueError, *words)

    def test_what_holds_no_numbers(self):
        words = ("chain_kernel must be an array of numbers", "[['a']]")
        bad(lambda: from_tfa([[["a"]]]), TypeError, *words)

    def test_the_results_are_new_arrays(self):
        chain_kernel = np.zeros([2, 2])
        from_tfa([chain_kernel]).transitions[:] = 1
        assert not chain_kernel.any()


class TestBadStateDicts:
    def state(self, prefix=""):
        names = ("start_transitions", "end_transitions")
        return {prefix + name: draw(3) for name in names} | {prefix + "transitions": draw(3, 3)}

    def test_none_in_it(self):
        words = ("one name that is or ends in '.transitions'", "the names ['linear.weight']")
        bad(lambda: from_pytorch_crf({"linear.weight": draw(3, 5)}), ValueError, *words)

    def test_two_in_it(self):
        state = self.state("pos.crf.") | self.state("ner.crf.")
        words = ("['pos.crf.transitions', 'ner.crf.transitions']", "pass the entries of one")
        bad(lambda: from_pytorch_crf(state), ValueError, *words)

    def test_one_without_its_ends(self):
        state = {"crf.transitions": draw(5, 5)}
        words = ("beside 'crf.transitions'", "no ['crf.start_transitions', 'crf.end_transitions']")
        bad(lambda: from_pytorch_crf(state), ValueError, *words)

    def test_shapes_that_do_not_go_together(self):
        state = self.state() | {"end_transitions": draw(4)}
        words = ("end_transitions must have the shape (3,)", "(3, 3); got (4,).")
        bad(lambda: from_pytorch_crf(state), ValueError, *words)


class TestBadMatrices:
    MATRIX = TestTheTagsThatAreLeft.MATRIX

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"rows": "columns"}, ('rows must be "from"', '"to"', "got 'columns'")),
            ({"bos": 5}, ("the matrix has the tags 0..4", "'bos': 5")),
            ({"eos": -6}, ("the matrix has the tags 0..4", "'eos': -6")),
            ({"eos": 2}, ("must be different tags", "'bos': 2, 'eos': 2")),
            ({"pad": -1}, ("must be different tags", "'pad': -1")),
            ({"matrix": np.ones([4, 5])}, ("matrix must be square", "got the shape (4, 5)")),
            ({"matrix": np.ones(5)}, ("matrix must be square", "got the shape (5,)")),
            (
                {"matrix": np.ones([2, 2]), "bos": 0, "eos": 1, "pad": None},
                ("a matrix of the shape (2, 2) has no tags beside {'bos': 0, 'eos': 1}",),
            ),
            ({"rows": "to"}, ('read with rows="to"', "out of BOS", 'Is it rows="from"')),
            ({"bos": 4, "eos": 2}, ("out of BOS is forbidden", "-10000", "or is bos the id of")),
        ],
    )
    def test_what_cannot_be_read(self, options, words):
        options = {"matrix": self.MATRIX, "bos": 2, "eos": 4, "pad": 0, "rows": "from"} | options
        bad(lambda: from_bos_eos(**options), ValueError, *words)

    @pytest.mark.parametrize(
        ("place", "where"),
        [
            ((1, 2), "into BOS"),
            ((2, 2), "into BOS"),
            ((4, 3), "out of EOS"),
            ((4, 4), "out of EOS"),
            ((3, 0), "into PAD"),
            ((2, 0), "into PAD"),
        ],
    )
    def test_ways_through_helper_tags_are_warned_of(self, place, where):
        matrix = self.MATRIX.copy()
        matrix[place] = 0.5
        with pytest.warns(UserWarning, match=f"scores {where} are dropped.*0.5.*its paths could"):
            from_bos_eos(matrix, bos=2, eos=4, pad=0, rows="from")

    def test_the_warning_is_right(self):
        matrix = draw(5, 5)
        crf = originals.BatchedFrom(matrix, bos=3, eos=4)
        with pytest.warns(UserWarning, match="dropped"):
            weights = from_bos_eos(matrix, bos=3, eos=4, rows="from")
        inputs, tags = draw(BATCH, STEPS, 5), random_tags()
        result = chain(weights, inputs[:, :, :TAGS]).log_prob(tags)
        assert differ(result.numpy(), crf.log_likelihood(inputs, tags, everywhere(tags)))


GUIDE = (pathlib.Path(__file__).parents[1] / "docs" / "coming-from.md").read_text(encoding="utf-8")


def test_each_block_of_the_guide_prints_what_stands_behind_it():
    blocks = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", GUIDE, re.DOTALL)
    assert len(blocks) > 4
    names = {}
    for code, output in blocks:
        assert printed(code, names) == output
