"""CRFLayer(scheme=…): what the rules of a scheme promise, and true tags that break them."""

import itertools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from keras_crf import (
    CRFLayer,
    CRFLoss,
    LinearChainCRF,
    crf_loss,
    distribution_of,
    export_tagger,
    plot,
    tags,
)
from oracle import Oracle
from spelling import SCHEMES, names_of

NAMES = ["O", "B-X", "I-X"]
O, B, I = range(3)  # noqa: E741
RULES = tags.allowed_transitions(NAMES, "BIO")


def layer_with_rules(names=NAMES, scheme="BIO", **options):
    """A layer over potentials, whose scores of moves are all 0."""
    layer = CRFLayer(
        len(names),
        use_kernel=False,
        tag_names=names,
        scheme=scheme,
        transitions_initializer="zeros",
        **options,
    )
    layer.build((None, None, len(names)))
    return layer


def potentials_of(seed, rows=1, steps=4, number_of_tags=3):
    return np.random.default_rng(seed).normal(size=[rows, steps, number_of_tags]).astype("float32")


def losses(labels, outputs, **options):
    return CRFLoss(reduction="none", **options)(labels, outputs).numpy()


def is_legal(paths, allowed):
    """Which of the paths [..., n] keep the rules."""
    legal = allowed.start[paths[..., 0]] & allowed.end[paths[..., -1]]
    return legal & allowed.transitions[paths[..., :-1], paths[..., 1:]].all(axis=-1)


def all_legal_paths(steps, names, allowed):
    paths = np.array(list(itertools.product(range(len(names)), repeat=steps)))
    return paths[is_legal(paths, allowed)]


class TestTheLoss:
    @pytest.mark.parametrize("scheme", SCHEMES)
    def test_normalises_over_legal_paths_only(self, scheme):
        names = names_of(scheme, ["X"])
        allowed = tags.allowed_transitions(names, scheme)
        layer = layer_with_rules(names, scheme)
        scores = potentials_of(0, 1, 3, len(names))
        legal = all_legal_paths(3, names, allowed)
        found = losses(legal, layer(np.repeat(scores, len(legal), axis=0)))
        shut = [np.where(part, 0.0, -np.inf) for part in allowed]
        oracle = Oracle(scores, *shut, np.ones([1, 3], bool))
        expected = [oracle.score(path[np.newaxis]) - oracle.log_partition() for path in legal]
        assert_allclose(-found, np.squeeze(expected), atol=1e-5)
        assert_allclose(np.exp(-found).sum(), 1, atol=1e-6)

    def test_of_each_token_is_that_of_the_row(self):
        layer, labels = layer_with_rules(), [[B, I, O, B]]
        outputs = layer(potentials_of(1))
        assert_allclose(crf_loss(labels, outputs).numpy().sum(1), losses(labels, outputs), 1e-5)

    def test_leaves_the_weights_as_they_are_and_trains_them(self):
        keras.utils.set_random_seed(3)
        free = CRFLayer(3)
        free.build((None, None, 5))
        keras.utils.set_random_seed(3)
        layer = CRFLayer(3, tag_names=NAMES, scheme="BIO")
        model = keras.Sequential([keras.Input((None, 5)), layer])
        for weight, other in zip(layer.get_weights(), free.get_weights(), strict=True):
            assert_array_equal(weight, other)
        model.compile("adam", CRFLoss(), run_eagerly=True)
        before = layer.get_weights()
        features = np.random.default_rng(0).normal(size=[8, 6, 5])
        model.fit(features, np.array([[B, I, I, O, B, B]] * 8), epochs=3, verbose=0)
        for weight, old in zip(layer.get_weights(), before, strict=True):
            assert np.isfinite(weight).all()
            assert (weight != old).any()
        assert_array_equal(  # what is forbidden has no gradient
            layer.get_weights()[2][~RULES.transitions], before[2][~RULES.transitions]
        )

    def test_has_finite_gradients_where_scores_are_far_apart(self):
        layer = layer_with_rules()
        scores = tf.constant([[[0.0, -1e4, 1e4], [1e4, 0.0, 1e4], [-1e4, 0.0, 0.0]]])
        with tf.GradientTape() as tape:
            tape.watch(scores)
            loss = CRFLoss()([[B, I, I]], layer(scores))
        assert np.isfinite(loss)
        for gradient in tape.gradient(loss, [scores, *layer.trainable_weights]):
            assert np.isfinite(gradient).all()


class TestWhatComesOut:
    SCORES = np.array([[[0, 0, 9], [0, 0, 9], [9, 0, 8], [0, 0, 9]]], "float32")  # I-X everywhere

    @pytest.mark.parametrize("mode", ["one_hot", "int", "marginals"])
    def test_is_legal_in_each_output_mode(self, mode):
        outputs = layer_with_rules(output_mode=mode)(self.SCORES)
        best = outputs.numpy() if mode == "int" else outputs.numpy().argmax(-1)
        assert tags.is_legal([NAMES[tag] for tag in best[0]], "BIO")
        if mode == "marginals":
            assert outputs[0, 0, I] == 0

    def test_is_as_the_scores_say_in_the_mode_that_gives_them(self):
        assert_array_equal(layer_with_rules(output_mode="potentials")(self.SCORES), self.SCORES)

    def test_is_legal_over_the_kept_steps_where_the_mask_has_holes(self):
        mask = [[True, False, True, True]]
        tagged = layer_with_rules(output_mode="int", pad_tag=-1)(self.SCORES, mask=mask)
        kept = tagged.numpy()[0][mask[0]]
        assert tags.is_legal([NAMES[tag] for tag in kept], "BIO")
        assert tagged[0, 1] == -1

    def test_is_legal_from_an_export(self, tmp_path):
        inputs = keras.Input((None, 3), name="scores")
        model = keras.Model(inputs, layer_with_rules()(inputs))
        export_tagger(model, tmp_path / "1")
        tagger = tf.saved_model.load(str(tmp_path / "1")).signatures["marginals"]
        scores = np.repeat(self.SCORES, 2, axis=0)
        answer = tagger(scores=tf.constant(scores), lengths=tf.constant([4, 1]))
        named = answer["tags"].numpy().astype(str)
        assert tags.is_legal(named[0], "BIO")
        assert tags.is_legal(named[1, :1], "BIO")
        assert_array_equal(answer["marginals"][:, 0, I], [0, 0])

    def test_is_legal_under_rules_of_ones_own(self):
        no_b_after_b = RULES.transitions & ~np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]], bool)
        layer = layer_with_rules(scheme=(no_b_after_b, RULES.start, RULES.end))
        sampled = distribution_of(layer(np.zeros([2, 6, 3], "float32"))).sample(50, seed=1).numpy()
        assert not ((sampled[..., :-1] == B) & (sampled[..., 1:] == B)).any()

    def test_is_shown_as_forbidden_in_the_plot_of_the_layer(self):
        pytest.importorskip("matplotlib")
        figure = plot.transitions(layer_with_rules())
        assert "forbidden" in [text.get_text() for text in figure.legends[0].get_texts()]


BROKEN = {
    "first": ([I, O, O, O], r"I-X may not be first at row 0, step 0"),
    "pair": ([B, I, O, I], r"I-X may not follow O at row 0, step 3"),
}


class TestTrueTagsThatBreakTheRules:
    @pytest.mark.parametrize("case", BROKEN)
    def test_are_refused_with_row_step_and_both_tags(self, case):
        labels, words = BROKEN[case]
        outputs = layer_with_rules()(potentials_of(2, rows=2))
        with pytest.raises(ValueError, match="break the rules of BIO: " + words):
            CRFLoss()([labels, [O] * 4], outputs)
        with pytest.raises(ValueError, match=words):
            crf_loss([labels, [O] * 4], outputs)

    def test_are_refused_where_the_last_may_not_be_last(self):
        names = names_of("IOBES", ["X"])
        outputs = layer_with_rules(names, "IOBES")(potentials_of(2, 2, 3, len(names)))
        with pytest.raises(ValueError, match=r"IOBES: B-X may not be last at row 1, step 2"):
            CRFLoss()([[0, 0, 0], [0, 0, 1]], outputs)

    def test_are_refused_by_a_graph_when_it_runs(self):
        layer = layer_with_rules()

        @tf.function
        def loss(labels):
            return CRFLoss()(labels, layer(potentials_of(2, rows=2)))

        loss(tf.constant([[O] * 4, [B, I, I, O]]))
        with pytest.raises(tf.errors.InvalidArgumentError) as raised:
            loss(tf.constant([[O] * 4, [B, I, O, I]]))
        assert (
            "[the true tags break the rules of BIO: <value> may not follow <previous> at row <row>,"
            " step <step>. Tags: 0 O, 1 B-X, 2 I-X. value, previous, row, step:] [2 0 1 3]\n"
        ) in str(raised.value)

    def test_give_nan_in_their_row_alone_where_xla_cannot_raise(self):
        layer = layer_with_rules()

        @tf.function(jit_compile=True)
        def loss(labels):
            return CRFLoss(reduction="none")(labels, layer(potentials_of(2, rows=2)))

        assert_array_equal(np.isnan(loss(tf.constant([[O, I, I, O], [O] * 4]))), [True, False])

    def test_are_neighbours_over_dropped_steps(self):
        layer, mask = layer_with_rules(), [[True, False, True, False]]
        outputs = layer(potentials_of(2), mask=mask)
        assert np.isfinite(CRFLoss()([[B, O, I, I]], outputs))  # what is dropped is not read
        with pytest.raises(ValueError, match="I-X may not follow O at row 0, step 2"):
            CRFLoss()([[O, B, I, I]], outputs)

    def test_may_be_one_hot(self):
        outputs = layer_with_rules()(potentials_of(2))
        with pytest.raises(ValueError, match="I-X may not follow O at row 0, step 3"):
            CRFLoss()(np.eye(3)[[[B, I, O, I]]], outputs)
        legal = [[B, I, O, B]]
        assert_allclose(losses(np.eye(3)[legal], outputs), losses(legal, outputs), 1e-5)

    def test_are_found_behind_steps_that_are_not_known(self):
        names = names_of("IOBES")
        begin, other_inside = names.index("B-X"), names.index("I-Y")
        outputs = layer_with_rules(names, "IOBES")(potentials_of(3, 1, 4, len(names)))
        labels = [[begin, -1, other_inside, -1]]  # one step cannot end X and begin Y
        with pytest.raises(ValueError, match="I-Y may not follow I-X at row 0, step 2"):
            CRFLoss(ignore_index=-1)(labels, outputs)
        labels = [[begin, -1, -1, -1]]
        assert np.isfinite(CRFLoss(ignore_index=-1)(labels, outputs))

    def test_are_named_where_they_first_break_them(self):
        names = names_of("IOBES", ["X"])
        outputs = layer_with_rules(names, "IOBES")(potentials_of(2, 2, 3, len(names)))
        inside, begin = names.index("I-X"), names.index("B-X")
        with pytest.raises(ValueError, match="B-X may not be last at row 0, step 2"):
            CRFLoss()([[0, 0, begin], [inside, 0, 0]], outputs)

    def test_are_not_sets_of_no_tag_which_lose_as_they_do_without_rules(self):
        sets = np.eye(3)[[[B, I, O, B]]]
        sets[0, 2] = 0
        for illegal_gold in ("raise", "allow"):
            outputs = layer_with_rules(illegal_gold=illegal_gold)(potentials_of(2))
            assert_array_equal(losses(sets, outputs), [np.inf])

    def test_may_be_refused_and_later_allowed(self):
        layer = layer_with_rules()
        layer.illegal_gold = "allow"
        assert np.isfinite(losses([[I, O, O, O]], layer(potentials_of(2)))).all()
        assert layer.get_config()["illegal_gold"] == "allow"


class TestAllowedTrueTagsThatBreakTheRules:
    @pytest.mark.parametrize(
        ("labels", "unknown"),
        [
            ([B, I, O, B], []),
            ([I, O, O, O], [0]),
            ([B, I, O, I], [2, 3]),
            ([I, I, O, O], [0]),
            ([O, I, O, I], [0, 1, 2, 3]),
        ],
    )
    def test_say_nothing_where_they_break_them(self, labels, unknown):
        outputs = layer_with_rules(illegal_gold="allow")(potentials_of(4))
        sets = np.eye(3, dtype=bool)[[labels]]
        sets[:, unknown] = True
        free = layer_with_rules()(potentials_of(4))
        expected = -distribution_of(free).log_prob(sets)
        assert_allclose(losses([labels], outputs), expected, 1e-5)

    def test_say_nothing_on_both_sides_of_dropped_steps(self):
        mask = [[True, False, True, True]]
        outputs = layer_with_rules(illegal_gold="allow")(potentials_of(4), mask=mask)
        sets = np.eye(3, dtype=bool)[[[O, O, I, I]]]
        sets[:, [0, 2]] = True
        expected = -distribution_of(outputs).log_prob(sets)
        assert_allclose(losses([[O, B, I, I]], outputs), expected, 1e-5)

    @settings(max_examples=60, deadline=None)
    @given(st.data())
    def test_always_leave_a_legal_path(self, data):
        scheme = data.draw(st.sampled_from(SCHEMES))
        names = data.draw(st.sampled_from([names_of(scheme, ["X"]), names_of(scheme)]))
        ids = st.integers(-1, len(names) - 1)
        row = st.lists(ids, min_size=6, max_size=6)
        labels = np.array(data.draw(st.lists(row, min_size=4, max_size=4)))
        kept = st.lists(st.booleans(), min_size=6, max_size=6)
        mask = np.array(data.draw(st.lists(kept, min_size=4, max_size=4)))
        layer = layer_with_rules(names, scheme, illegal_gold="allow")
        outputs = layer(potentials_of(5, 4, 6, len(names)), mask=mask)
        found = losses(labels, outputs, ignore_index=-1)
        assert np.isfinite(found).all()
        assert (found >= -1e-6).all()

    def test_say_nothing_at_all_where_that_alone_leaves_a_legal_path(self):
        four = np.arange(4)
        one_after_another = np.equal(four, (four[:, np.newaxis] + 1) % 4)  # 0 1 2 3 0 1 ...
        rules = one_after_another, np.ones(4, bool), np.ones(4, bool)
        layer = layer_with_rules([*"abcd"], rules, illegal_gold="allow")
        outputs = layer(potentials_of(4, 2, 6, 4))
        found = losses([[0, 1, 2, 0, 1, 2], [0, 1, 2, 3, 0, 1]], outputs)
        assert found[0] == 0
        assert found[1] > 0

    def test_train_a_model_on_data_that_is_broken(self):
        layer = CRFLayer(3, tag_names=NAMES, scheme="BIO", illegal_gold="allow")
        model = keras.Sequential([keras.Input((None, 4)), layer])
        model.compile("adam", CRFLoss(tag_weights=[1.0, 2.0, 2.0]), run_eagerly=True)
        features = np.random.default_rng(1).normal(size=[8, 5, 4])
        labels = np.array([[I, O, I, B, I]] * 8)
        history = model.fit(features, labels, epochs=2, verbose=0).history
        assert np.isfinite(history["loss"]).all()


class TestOnItsWay:
    def test_the_scheme_may_be_set_on_a_trained_layer(self):
        layer = layer_with_rules(scheme=None)
        model = keras.Sequential([keras.Input((None, 3)), layer])
        scores = TestWhatComesOut.SCORES
        assert model.predict(scores, verbose=0).argmax(-1)[0, 0] == I
        layer.scheme = "BIO"
        model.compile(loss=CRFLoss())
        best = model.predict(scores, verbose=0).argmax(-1)[0]
        assert tags.is_legal([NAMES[tag] for tag in best], "BIO")
        assert layer.get_config()["scheme"] == "BIO"
        with pytest.raises(ValueError, match="no legal sequence of IOBES"):
            layer.scheme = "IOBES"

    @pytest.mark.parametrize("scheme", ["BIO", RULES])
    def test_the_scheme_comes_back_from_the_config(self, scheme):
        layer = layer_with_rules(scheme=scheme, illegal_gold="allow")
        again = CRFLayer.from_config(json.loads(json.dumps(layer.get_config())))
        for part, other in zip(again.rules.allowed, RULES, strict=True):
            assert_array_equal(part, other)
        assert again.illegal_gold == "allow"

    def test_the_scheme_comes_back_from_a_file_and_in_a_clone(self, tmp_path):
        model = keras.Sequential([keras.Input((None, 3)), layer_with_rules()])
        model.save(tmp_path / "tagger.keras")
        loaded = keras.models.load_model(tmp_path / "tagger.keras")
        scores = TestWhatComesOut.SCORES
        for other in (loaded, keras.models.clone_model(model)):
            best = other.predict_on_batch(scores).argmax(-1)[0]
            assert tags.is_legal([NAMES[tag] for tag in best], "BIO")
        with pytest.raises(ValueError, match="I-X may not be first"):
            CRFLoss()([[I, I, O, O]], loaded(scores))

    def test_the_scheme_holds_in_mixed_precision(self):
        layer = CRFLayer(3, tag_names=NAMES, scheme="BIO", dtype="mixed_float16")
        outputs = layer(np.random.default_rng(0).normal(size=[2, 4, 5]).astype("float32"))
        assert np.isfinite(losses([[B, I, O, O], [O] * 4], outputs)).all()
        assert tags.is_legal([NAMES[tag] for tag in outputs.numpy().argmax(-1)[0]], "BIO")


@pytest.mark.parametrize(
    ("names", "options", "words"),
    [
        (["O", "B-X", "Q-X"], {}, r"not of IOB2: \['Q-X'\]"),
        (["O", "O", "B-X"], {}, r"tag_names must be 3 different names.*more than once \['O'\]"),
        (["O", "I-X", "B-Y"], {}, r"holds \['I-X'\]"),
        (["B-X", "E-X"], {"scheme": "BIOES"}, r"\['B-X', 'E-X'\] make no .*of the length 1\."),
        (NAMES, {"scheme": "BOI"}, r"scheme must be one of IOB2.*got 'BOI'"),
        (None, {}, r"scheme='BIO' needs tag_names"),
        (NAMES[:2], {"num_tags": 3}, r"tag_names must be 3 different names, one a tag; got 2"),
        (NAMES, {"illegal_gold": "drop"}, r"illegal_gold must be one of \('raise', 'allow'\)"),
        (None, {"illegal_gold": "drop", "scheme": None}, r"illegal_gold must be one of"),
        (NAMES, {"scheme": RULES[:2]}, r"allowed must be three arrays"),
        (NAMES, {"scheme": ([[True], [True, False]], *RULES[1:])}, r"need rows of one length"),
        (
            ["O", "B_X"],
            {},
            r"B_X.*scheme=keras_crf.tags.allowed_transitions\(tag_names, 'BIO', sep",
        ),
        (
            NAMES,
            {"scheme": "IOBES"},
            r"no legal sequence of IOBES.*tags.detect_scheme\(tag_names\)",
        ),
        (NAMES, {"scheme": ([[True]], *RULES[1:])}, r"allowed transitions must have the shape"),
    ],
)
def test_a_scheme_that_does_not_fit_is_refused_by_name(names, options, words):
    options = {"num_tags": len(names or NAMES), "scheme": "BIO", **options}
    with pytest.raises(ValueError, match=words):
        CRFLayer(tag_names=names, **options)


@pytest.mark.parametrize("scheme", [5, True, {}, b"BIO", (part for part in RULES)])
def test_a_scheme_that_is_none_is_refused(scheme):
    with pytest.raises(TypeError, match="scheme must be the name of a tag scheme, or three bool"):
        CRFLayer(3, tag_names=NAMES, scheme=scheme)


def test_tag_names_are_strings():
    with pytest.raises(TypeError, match="tag_names must be strings, got b'O'"):
        CRFLayer(2, tag_names=[b"O", b"B-X"])


def test_rules_of_ones_own_are_copied():
    own = [np.array(table) for table in RULES]
    layer = layer_with_rules(scheme=own)
    own[1][:] = False
    assert_array_equal(layer.rules.allowed.start, RULES.start)
    assert_array_equal(layer.get_config()["scheme"][1], RULES.start)


@pytest.mark.parametrize("allowed", ["BIO", None, list(RULES)])
def test_what_is_neither_rules_nor_sets_does_not_constrain(allowed):
    crf = LinearChainCRF(potentials_of(0), np.zeros([3, 3]))
    with pytest.raises(TypeError, match=r"allowed must be a tuple of rules.*or sets, bool \[batch"):
        crf.constrained(allowed)


class TestScoresOfWhatIsForbidden:
    """However high, they leave the rest as it is."""

    @pytest.mark.parametrize("score", [1e4, 1e8, 1e30])
    def test_change_no_answer(self, score):
        names = names_of("IOBES", ["X"])
        scores = potentials_of(6, 2, 5, len(names))
        layer, labels = layer_with_rules(names, "IOBES"), np.zeros([2, 5], int)
        spoilt = scores.copy()
        spoilt[:, 0, names.index("I-X")] = spoilt[:, -1, names.index("B-X")] = score
        outputs, expected = layer(spoilt), layer(scores)
        assert_allclose(crf_loss(labels, outputs), crf_loss(labels, expected), 1e-5, 1e-6)
        assert_array_equal(outputs, expected)
        found, wanted = distribution_of(outputs), distribution_of(expected)
        assert_allclose(found.marginals(), wanted.marginals(), 1e-4, 1e-6)
        assert_allclose(found.log_partition(), wanted.log_partition(), 1e-5)

    def test_have_no_gradient_that_is_nan(self):
        scores = tf.Variable(potentials_of(7))
        start = tf.Variable([0.0, 0.0, -90.0])
        with tf.GradientTape() as tape:
            crf = LinearChainCRF(scores, np.zeros([3, 3], "float32"), start=start)
            edges = tf.reduce_sum(crf.edge_marginals()[..., 1] ** 2)
        for gradient in tape.gradient(edges, [scores, start]):
            assert np.isfinite(gradient).all()

    def test_in_a_weight_forbid_as_well(self):
        layer = layer_with_rules(scheme=None)
        layer.start.assign([0.0, 0.0, -np.inf])
        assert np.isfinite(losses([[B, I, O, B]], layer(potentials_of(8)))).all()
        assert distribution_of(layer(potentials_of(8))).marginals()[0, 0, I] == 0


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_of_a_hundred_thousand_problems_none_has_an_illegal_answer(scheme):
    names = names_of(scheme, ["X"])
    allowed = tags.allowed_transitions(names, scheme)
    random = np.random.default_rng(SCHEMES.index(scheme))
    rows = 10_000
    for steps in (1, 2, 3, 4, 5):
        for size in (1.0, 10.0):
            scores = random.normal(size=[rows, steps, len(names)]).astype("float32") * size
            moves = random.normal(size=[len(names)] * 2).astype("float32") * size
            crf = LinearChainCRF(scores, moves).constrained(allowed)
            top = crf.top_k(3)
            drawn = crf.sample(2, seed=steps).numpy()
            best = [crf.argmax().tags.numpy(), crf.posterior_decode().numpy()]
            for paths in (*best, *drawn, top.tags.numpy()[top.score > -np.inf]):
                assert is_legal(paths, allowed).all()
            legal = all_legal_paths(steps, names, allowed)
            mass = sum(np.exp(crf.log_prob(np.tile(path, [rows, 1]))) for path in legal)
            assert_allclose(mass, 1, atol=1e-6)


class TestUnusedTags:
    """Names such as PAD and [CLS], which no sequence holds."""

    NAMES = ("PAD", "O", "[CLS]", "B-PER", "I-PER")
    UNUSED = ("PAD", "[CLS]")

    def outputs(self, **options):
        options = {"scheme": "BIO", "output_mode": "int", **options}
        layer = CRFLayer(5, tag_names=self.NAMES, unused_tags=self.UNUSED, **options)
        features = np.random.default_rng(5).normal(size=[3, 4, 6]).astype("float32")
        outputs = layer(features, lengths=[4, 1, 3])
        bias = [9.0, 0, 9, 0, 0]  # else the unused tags would hardly be chosen
        layer.bias.assign(bias)
        return layer, layer(features, lengths=[4, 1, 3]) if outputs is not None else None

    @pytest.mark.parametrize("scheme", ["BIO", None])
    def test_have_probability_0_with_a_scheme_and_without(self, scheme):
        layer, outputs = self.outputs(scheme=scheme)
        crf = distribution_of(outputs)
        assert layer.scheme == scheme
        assert not crf.marginals().numpy()[..., [0, 2]].any()
        assert not np.isin(outputs.numpy()[distribution_of(outputs).mask], [0, 2]).any()
        assert not np.isin(crf.sample(20, seed=1).numpy()[:, crf.mask], [0, 2]).any()
        assert not np.isin(crf.top_k(2).tags.numpy().transpose(0, 2, 1)[crf.mask], [0, 2]).any()
        free = LinearChainCRF(
            crf.potentials.numpy()[..., [1, 3, 4]],
            layer.transitions.numpy()[np.ix_([1, 3, 4], [1, 3, 4])],
            start=layer.start.numpy()[[1, 3, 4]],
            end=layer.end.numpy()[[1, 3, 4]],
            mask=crf.mask,
        )
        if scheme:
            free = free.constrained(tags.allowed_transitions(["O", "B-PER", "I-PER"], scheme))
        labels = np.array([[1, 3, 4, 1], [3, 0, 0, 0], [1, 1, 3, 0]])
        expected = free.log_prob(np.maximum(labels - 2, 0))  # the ids without the unused ones
        assert_allclose(crf.log_prob(labels), expected, 1e-5)
        assert_allclose(losses(labels, outputs), -expected, 1e-5)

    def test_are_refused_among_true_tags_by_name(self):
        outputs = self.outputs()[1]
        labels = np.array([[1, 3, 0, 4], [1] * 4, [1] * 4])
        message = (
            "the true tags hold PAD, one of unused_tags, which have probability 0, at row 0, "
            "step 2. A step without a tag needs"
        )
        with pytest.raises(ValueError, match=message):
            CRFLoss()(labels, outputs)
        assert np.isfinite(CRFLoss(ignore_index=0)(labels, outputs))
        labels[0] = [1, 3, 3, 1]
        labels[2, 1] = 4
        with pytest.raises(ValueError, match="BIO: I-PER may not follow O at row 2, step 1"):
            CRFLoss()(labels, outputs)

    def test_are_no_break_of_the_rules_that_is_allowed_to_say_anything(self):
        outputs = self.outputs(illegal_gold="allow")[1]
        labels = np.array([[1, 3, 0, 4], [1] * 4, [1] * 4])
        assert np.isfinite(CRFLoss()(labels, outputs))

    def test_may_stand_beside_rules_that_are_given(self):
        every = np.ones([5, 5], bool), np.ones(5, bool), np.ones(5, bool)
        layer, outputs = self.outputs(scheme=every)
        assert not distribution_of(outputs).marginals().numpy()[..., [0, 2]].any()
        again = CRFLayer.from_config(json.loads(json.dumps(layer.get_config())))
        assert not again.rules.allowed.start[[0, 2]].any()

    def test_are_saved_with_the_layer(self):
        for scheme in ("BIO", None):
            layer, _ = self.outputs(scheme=scheme)
            config = json.loads(json.dumps(layer.get_config()))
            assert (config["scheme"], config["unused_tags"]) == (scheme, list(self.UNUSED))
            again = CRFLayer.from_config(config)
            for part, other in zip(again.rules.allowed, layer.rules.allowed, strict=True):
                assert_array_equal(part, other)

    def test_are_none_in_the_config_of_a_layer_of_version_0_1(self):
        config = CRFLayer(5, tag_names=self.NAMES).get_config()
        del config["unused_tags"]
        layer = CRFLayer.from_config(config)
        assert (layer.unused_tags, layer.rules) == ((), None)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"unused_tags": ["PAD"]}, r"unused_tags=\['PAD'\] needs tag_names"),
            ({"tag_names": ["O", "B"], "unused_tags": "PAD"}, r"among .*'B'\]; got \['PAD'\]"),
            ({"tag_names": ["O", "B"], "unused_tags": ["O", "B"]}, "must leave a tag that is used"),
            ({"tag_names": ["O", "PAD"], "scheme": "BIO"}, r"\['PAD'\].*PAD .*go into unused_tags"),
            (
                {"tag_names": ["O", "I-X"], "scheme": "BIO"},
                r"holds \['I-X'\].*name them in unused_t",
            ),
        ],
    )
    def test_that_do_not_fit_are_refused(self, options, words):
        with pytest.raises(ValueError, match=words):
            CRFLayer(2, **options)
