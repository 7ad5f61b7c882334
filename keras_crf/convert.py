"""Trained weights of other libraries' CRFs, brought to the meaning that `CRFLayer` gives them.

Every function here takes arrays and returns `Weights`, NumPy only. `Weights.assign_to` loads a
`CRFLayer`; `LinearChainCRF` takes them as they are. A path y over potentials [T, K] then has the
log-probability that it had where the weights were trained:

    score(y) = start[y_1] + sum_t potentials[t, y_t]
               + sum_{t>1} transitions[y_{t-1}, y_t] + end[y_n]

>>> weights = from_pytorch_crf({
...     "crf.transitions": [[0.5, -0.5], [0.0, 0.25]],
...     "crf.start_transitions": [0.5, 0.0], "crf.end_transitions": [0.0, 1.0]})
>>> layer = CRFLayer(2, use_kernel=False)
>>> layer.build((None, None, 2))
>>> weights.assign_to(layer)
>>> layer.distribution(np.array([[[0, 0.75], [1, 0], [0, 0.25]]])).argmax().tags.numpy()
array([[0, 0, 1]], dtype=int32)
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from keras_crf.weights import Weights

if TYPE_CHECKING:
    from keras_crf.tensor_like import TensorLike

MATRICES = ("kernel", "chain_kernel", "transitions")  # all other names are of vectors
# What `get_weights()` of these layers lists: no two lists of one library have the same ranks.
TFA_ORDERS = (
    ("chain_kernel", "left_boundary", "right_boundary", "kernel", "bias"),
    ("chain_kernel", "left_boundary", "right_boundary"),
    ("chain_kernel", "kernel", "bias"),
    ("chain_kernel",),
)
KERAS_CONTRIB_ORDERS = (
    ("kernel", "chain_kernel", "bias", "left_boundary", "right_boundary"),
    ("kernel", "chain_kernel", "left_boundary", "right_boundary"),
    ("kernel", "chain_kernel", "bias"),
    ("kernel", "chain_kernel"),
)
BOUNDARIES = ("left_boundary", "right_boundary")
FORBIDDING = -50.0  # exp(-50) is 2e-22: beside ordinary scores, such a path counts for nothing


def from_tfa(weights: Sequence | Mapping) -> Weights:
    """The weights of a `tfa.layers.CRF` (tensorflow_addons).

        kernel = kernel            start = left_boundary
        bias = bias                end = right_boundary         transitions = chain_kernel

    Args:
        weights: `layer.get_weights()` in its order, with or without kernel and boundaries, or a
            dict by name, `{weight.name: weight.numpy() for weight in layer.weights}`. The list of
            a `tf2crf.CRF` has the same order.

    Returns:
        `Weights`; kernel and bias are None after `use_kernel=False`, start and end zeros after
        `use_boundary=False`.

    Raises:
        ValueError: a list that is none of the layer's, names that are unknown, missing or there
            twice, shapes that do not go together, NaN.

    Source: `tensorflow_addons/layers/crf.py` at 0.23.

    >>> weights = from_tfa([np.eye(3), np.ones(3), np.zeros(3)])
    >>> weights.transitions.shape, weights.start, weights.kernel
    ((3, 3), array([1., 1., 1.]), None)
    """
    named = _named(weights, TFA_ORDERS, "tfa.layers.CRF")
    transitions = named["chain_kernel"]
    ends = (named.get(name, np.zeros(len(transitions))) for name in BOUNDARIES)
    return Weights(named.get("kernel"), named.get("bias"), transitions, *ends)


def from_keras_contrib(weights: Sequence | Mapping, *, masked: bool) -> Weights:
    """The weights of a `keras_contrib.layers.CRF` in its "join" mode, with linear activation.

    That layer adds up energies, p(y) = exp(-energy(y)) / Z, so that every sign is turned round:

        kernel = -kernel           start = -left_boundary
        bias = -bias               transitions = -chain_kernel

    What it adds at the end of a row depends on whether it gets a mask. With one, it adds nothing:
    it takes the step before the first for the end, so that `right_boundary` is never used. Without
    one, the recursions of Viterbi and Z take one step more than there are, into tag 0:

        masked:      end = 0
        not masked:  end = -right_boundary - chain_kernel[:, 0]

    Best paths are then those of the original, and so is log Z, but for another log K that it has
    in it for each dropped step. Its loss is a mean over tokens, and without a mask has that
    additional step in Z and not in the score of the right tags. Not reproduced: masks with holes,
    at which its chain breaks and starts anew, and its marginals (`learn_mode="marginal"`,
    `test_mode="marginal"`), which are not those of its likelihood.

    Args:
        weights: `layer.get_weights()` in its order, with or without bias and boundaries, or a dict
            by name.
        masked: whether the layer was used with a mask, as behind `Embedding(mask_zero=True)`.

    Returns:
        `Weights`; the bias is zeros after `use_bias=False`.

    Raises:
        ValueError: as `from_tfa`.

    Source: `keras_contrib/layers/crf.py`; the end: keras-contrib issues 278, 343 and 508.

    >>> from_keras_contrib([np.ones([5, 2]), np.eye(2)], masked=False).end
    array([-1.,  0.])
    """
    named = _named(weights, KERAS_CONTRIB_ORDERS, "keras_contrib.layers.CRF")
    scores = {name: 0 - energies for name, energies in named.items()}  # not -0.0 for 0
    transitions = scores["chain_kernel"]
    zeros = np.zeros(len(transitions))
    bias, start, end = (scores.get(name, zeros.copy()) for name in ("bias", *BOUNDARIES))
    end = zeros if masked else end + transitions[:, 0]
    return Weights(scores["kernel"], bias, transitions, start, end)


def from_pytorch_crf(state: Mapping) -> Weights:
    """The weights of a `torchcrf.CRF` (pytorch-crf) in a state dict of arrays.

        transitions = transitions    start = start_transitions    end = end_transitions

    Args:
        state: dict of arrays by name, of the CRF alone or of a whole model, whose prefix (such as
            "crf.") and other entries are passed over: `{name: tensor.cpu().numpy() for name, tensor
            in model.state_dict().items()}`.

    Returns:
        `Weights` without a kernel. That of an `nn.Linear` before the CRF may be put in:
        `weights._replace(kernel=linear_weight.T, bias=linear_bias)`.

    Raises:
        ValueError: no CRF in the dict or more than one, shapes that do not go together, NaN.

    Source: `torchcrf/__init__.py` of pytorch-crf 0.7.

    >>> from_pytorch_crf({"transitions": np.eye(2), "start_transitions": [1.0, 2.0],
    ...                   "end_transitions": [3.0, 4.0], "linear.bias": [0.0, 0.0]}).end
    array([3., 4.])
    """
    prefix = _prefix_of_the_crf(state)
    names = ("transitions", "start_transitions", "end_transitions")
    missing = [prefix + name for name in names if prefix + name not in state]
    if missing:
        raise ValueError(
            f"the weights of a torchcrf.CRF are {names}; beside {prefix + 'transitions'!r} the "
            f"state dict has no {missing}."
        )
    named = {name: _array(state[prefix + name], name) for name in names}
    _check_shapes(named, "transitions")
    return Weights(None, None, *named.values())


def from_bos_eos(
    matrix: TensorLike, *, bos: int, eos: int, rows: str, pad: int | None = None
) -> Weights:
    """The one matrix of a CRF that counts BOS and EOS (START and STOP), maybe PAD, as tags.

    With rows="from", where i and j are other tags:

        transitions[i, j] = matrix[i, j]    start[j] = matrix[bos, j]    end[i] = matrix[i, eos]

    The other tags keep their order, and are counted from 0. Dropped: whatever leads into BOS, out
    of EOS, and to or from PAD, which no tagged sentence uses. Finite scores that forbid, such
    as -10000, stay what they are.

    Args:
        matrix: [K+2, K+2], or with a PAD [K+3, K+3].
        bos, eos, pad: the ids of these tags; as in Python, -1 is the last.
        rows: "from" where matrix[i, j] is from i to j; "to" where it is to i from j, as in
            PyTorch's BiLSTM-CRF tutorial.

    Returns:
        `Weights` without a kernel. An `nn.Linear` before such a CRF has outputs for these tags too:
        `weights._replace(kernel=np.delete(weight, [bos, eos], axis=0).T,
        bias=np.delete(bias, [bos, eos]))`.

    Raises:
        ValueError: a matrix that is not square or has no other tags, NaN, ids out of range or
            used twice, an unknown `rows`, and a BOS that leads nowhere or an EOS that nothing leads
            to, which is what a wrong `rows` looks like.

    Warns:
        UserWarning: something dropped was not forbidden. If the original gave potentials to these
            tags, its paths could run through them, and its log-probabilities were others.

    Source: "Advanced: Making Dynamic Decisions and the Bi-LSTM CRF", pytorch.org/tutorials.

    >>> to_i_from_j = np.array([[0.5, 0.0, 1.0, -1e4], [-0.5, 0.25, 2.0, -1e4],
    ...                         [-1e4, -1e4, -1e4, -1e4], [3.0, 4.0, -1e4, -1e4]])
    >>> weights = from_bos_eos(to_i_from_j, bos=2, eos=3, rows="to")
    >>> weights.start, weights.end
    (array([1., 2.]), array([3., 4.]))
    >>> weights.transitions
    array([[ 0.5 , -0.5 ],
           [ 0.  ,  0.25]])
    """
    if rows not in ("from", "to"):
        raise ValueError(
            'rows must be "from", where matrix[i, j] is from i to j, or "to", where it is to i '
            f"from j; got {rows!r}."
        )
    matrix = _array(matrix, "matrix")
    helpers = _ids(matrix, bos=bos, eos=eos, pad=pad)
    matrix = matrix if rows == "from" else matrix.T
    tags = [tag for tag in range(len(matrix)) if tag not in helpers.values()]
    start, end = matrix[helpers["bos"], tags], matrix[tags, helpers["eos"]]
    _refuse_dead_ends(start, end, rows)
    _warn_of_ways_through(matrix, tags, **helpers)
    return Weights(None, None, matrix[np.ix_(tags, tags)], start, end)


def _array(value, name):
    """A new float64 array, without NaN."""
    try:
        array = np.array(value, np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array of numbers, got {value!r}.") from error
    if np.isnan(array).any():
        raise ValueError(f"{name} must hold numbers, got NaN: the training that made it failed.")
    return array


def _named(weights, orders, layer):
    """{name: float64 array} of a list in one of the orders, or of a dict by name."""
    named = _by_name(weights) if isinstance(weights, Mapping) else _by_order(list(weights), orders)
    if named is None or not any(named.keys() == set(names) for names in orders):
        lists = "; or ".join(", ".join(names) for names in orders)
        raise ValueError(
            f"a {layer} has the weights {lists}. Got {_described(weights)}. Pass get_weights() of "
            "that layer and of no other, or a dict of its weights by name."
        )
    named = {name: _array(value, name) for name, value in named.items()}
    _check_shapes(named, "chain_kernel")
    return named


def _by_name(weights):
    """{name: array}, from names such as "crf/dense/kernel:0"; None if one is there twice."""
    named = {key.split("/")[-1].split(":")[0]: value for key, value in weights.items()}
    return named if len(named) == len(weights) else None


def _by_order(arrays, orders):
    """{name: array} by the first of the orders that has the ranks of these arrays, or None."""
    ranks = [np.ndim(array) for array in arrays]
    for names in orders:
        if ranks == [_rank(name) for name in names]:
            return dict(zip(names, arrays, strict=True))
    return None


def _described(weights):
    if isinstance(weights, Mapping):
        return f"the names {list(weights)}"
    return f"arrays of the shapes {[np.shape(array) for array in weights]}"


def _rank(name):
    return 2 if name in MATRICES else 1


def _check_shapes(named, square):
    """Refuses arrays that do not go with the K of the matrix named `square`."""
    matrix = named[square]
    number_of_tags = matrix.shape[-1] if matrix.ndim else 1
    for name, array in named.items():
        wanted = (number_of_tags,) * _rank(name)
        if name == "kernel" and array.ndim == 2:
            wanted = (len(array), number_of_tags)
        if array.shape != wanted:
            raise ValueError(
                f"{name} must have the shape {wanted}, as {square} has the shape {matrix.shape}; "
                f"got {array.shape}."
            )


def _prefix_of_the_crf(state):
    """What stands before "transitions" in the one key that ends so."""
    keys = [key for key in state if key.split(".")[-1] == "transitions"]
    if len(keys) != 1:
        found = f"{keys}: pass the entries of one of them" if keys else f"the names {list(state)}"
        raise ValueError(
            "the state dict of a model with one torchcrf.CRF has one name that is or ends in "
            f"'.transitions'; got {found}."
        )
    return keys[0].removesuffix("transitions")


def _ids(matrix, **helpers):
    """{name: id in 0..size-1} of bos, eos and, unless it is None, pad."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"matrix must be square, tags by tags; got the shape {matrix.shape}.")
    wanted = [name for name, tag in helpers.items() if name != "pad" or tag is not None]
    given = {name: operator.index(helpers[name]) for name in wanted}
    size = len(matrix)
    if not all(-size <= tag < size for tag in given.values()):
        raise ValueError(f"the matrix has the tags 0..{size - 1}; got {given}.")
    ids = {name: tag % size for name, tag in given.items()}
    if len(set(ids.values())) < len(ids):
        raise ValueError(f"bos, eos and pad must be different tags; got {given}.")
    if len(ids) == size:
        raise ValueError(f"a matrix of the shape {matrix.shape} has no tags beside {given}.")
    return ids


def _refuse_dead_ends(start, end, rows):
    for scores, what in ((start, "out of BOS"), (end, "into EOS")):
        if scores.max() <= FORBIDDING:
            other = "to" if rows == "from" else "from"
            raise ValueError(
                f'read with rows="{rows}", every way {what} is forbidden, the best with the score '
                f'{scores.max():g}. Is it rows="{other}", or is bos the id of EOS, and eos of BOS?'
            )


def _warn_of_ways_through(matrix, tags, bos, eos, pad=None):
    """Warns if a path of the original could have run through BOS, EOS or PAD."""
    dropped = {"into BOS": matrix[[*tags, bos], bos], "out of EOS": matrix[eos, [*tags, eos]]}
    if pad is not None:
        dropped["into PAD"] = matrix[[*tags, bos], pad]
    for where, scores in dropped.items():
        if scores.max() > FORBIDDING:
            warnings.warn(
                f"the scores {where} are dropped, and they were not forbidden: the best is "
                f"{scores.max():g}. If the original had potentials for that tag, its paths could "
                "run through it, and it had other log-probabilities.",
                stacklevel=3,
            )
