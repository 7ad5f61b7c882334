"""What other libraries compute from their weights, each in its own way, said again in NumPy.

Nothing here uses keras_crf or the oracle. Letters: B rows, T steps, D features, K tags.
"""

import numpy as np


def logsumexp(scores, axis):
    return np.logaddexp.reduce(scores, axis=axis)


class TensorflowAddons:
    """`tfa.layers.CRF` and `tfa.text`: boundaries go into the potentials, masks become lengths."""

    def __init__(self, chain_kernel, left=None, right=None, kernel=None, bias=None):
        self.chain_kernel, self.kernel, self.bias = chain_kernel, kernel, bias
        self.left, self.right = left, right

    def log_likelihood(self, inputs, tags, mask):
        potentials = self.potentials(inputs, mask.astype(int))
        lengths = mask.sum(axis=1)
        rows = zip(potentials, tags, lengths, strict=True)
        return np.array([self.score(*row) - self.log_norm(row[0], row[2]) for row in rows])

    def potentials(self, inputs, mask):
        potentials = inputs if self.kernel is None else inputs @ self.kernel + self.bias
        if self.left is None:
            return potentials
        before = np.pad(mask, [(0, 0), (1, 0)])[:, :-1]  # the mask, a step to the right
        after = np.pad(mask, [(0, 0), (0, 1)])[:, 1:]
        rises, falls = mask > before, mask > after
        return potentials + rises[..., None] * self.left + falls[..., None] * self.right

    def score(self, potentials, tags, length):
        """Unary and binary scores, gathered from the flattened arrays."""
        steps, size = potentials.shape
        unary = potentials.ravel()[np.arange(steps) * size + tags]
        binary = self.chain_kernel.ravel()[tags[:-1] * size + tags[1:]]
        return unary @ (np.arange(steps) < length) + binary @ (np.arange(1, steps) < length)

    def log_norm(self, potentials, length):
        """A scan over all steps; then alpha is picked where the row ends."""
        alphas = [potentials[0]]
        for potential in potentials[1:]:
            alphas.append(potential + logsumexp(alphas[-1][:, None] + self.chain_kernel, axis=0))
        return logsumexp(alphas[length - 1], axis=0)


class KerasContrib:
    """`keras_contrib.layers.CRF`: energies, which are scores with the sign turned round."""

    def __init__(self, kernel, chain_kernel, bias=0.0, left=None, right=None):
        self.kernel, self.chain_kernel, self.bias = kernel, chain_kernel, bias
        self.left, self.right = left, right

    def loss(self, inputs, tags, mask=None):
        """log Z + energy of the tags, over the number of tokens."""
        tokens = inputs.shape[1] if mask is None else mask.sum(axis=1)
        return (self.log_z(inputs, mask) + self.gold_energy(inputs, tags, mask)) / tokens

    def input_energy(self, inputs, mask):
        energy = inputs @ self.kernel + self.bias
        if self.left is None:
            return energy
        if mask is None:
            energy[:, 0] += self.left
            energy[:, -1] += self.right
            return energy
        mask = mask.astype(int)
        before = np.pad(mask, [(0, 0), (1, 0)])[:, :-1]
        after = np.pad(mask, [(0, 0), (0, 1)])[:, 1:]
        starts, ends = mask > before, after > mask  # the second marks the step before a start
        return energy + starts[..., None] * self.left + ends[..., None] * self.right

    def gold_energy(self, inputs, tags, mask):
        one_hot = np.eye(len(self.chain_kernel))[tags]
        inputs_part = np.sum(self.input_energy(inputs, mask) * one_hot, axis=2)
        chain_part = np.sum(one_hot[:, :-1] @ self.chain_kernel * one_hot[:, 1:], axis=2)
        if mask is not None:
            inputs_part = inputs_part * mask
            chain_part = chain_part * mask[:, :-1] * mask[:, 1:]
        return inputs_part.sum(axis=1) + chain_part.sum(axis=1)

    def log_z(self, inputs, mask):
        return self.recursion(self.input_energy(inputs, mask), mask, self.log_z_step)[-1][:, 0]

    def recursion(self, energy, mask, step):
        """Each step adds its own energy and the chain to the step behind it, the last step too."""
        kept = None if mask is None else np.pad(mask, [(0, 0), (0, 1)]).astype(float)
        before, results = np.zeros_like(energy[:, 0]), []
        for t in range(energy.shape[1]):
            here, chain = energy[:, t], self.chain_kernel[None]
            if kept is not None:
                here = here * kept[:, t, None]
                chain = chain * (kept[:, t] * kept[:, t + 1])[:, None, None]
            result, before = step(here, chain, before)
            results.append(result)
        return results

    @staticmethod
    def log_z_step(here, chain, before):
        log_z = logsumexp(-(chain + (here - before)[..., None]), axis=1)
        return log_z, log_z

    @staticmethod
    def viterbi_step(here, chain, before):
        energy = chain + (here + before)[..., None]
        return energy.argmin(axis=1), energy.min(axis=1)

    def viterbi(self, inputs, mask=None):
        tables = self.recursion(self.input_energy(inputs, mask), mask, self.viterbi_step)
        best = tables[-1][:, 0]
        path = []
        for table in reversed(tables):
            best = table[np.arange(len(best)), best]
            path.append(best)
        return np.stack(path[::-1], axis=1)


class PytorchCRF:
    """`torchcrf.CRF`: time first, a mask of which the first step is on."""

    def __init__(self, start_transitions, end_transitions, transitions):
        self.start, self.end, self.transitions = start_transitions, end_transitions, transitions

    def log_likelihood(self, emissions, tags, mask):
        emissions, tags, mask = (np.swapaxes(x, 0, 1) for x in (emissions, tags, mask))
        return self.numerator(emissions, tags, mask) - self.normalizer(emissions, mask)

    def numerator(self, emissions, tags, mask):
        rows = np.arange(tags.shape[1])
        score = self.start[tags[0]] + emissions[0, rows, tags[0]]
        for t in range(1, len(tags)):
            score = score + self.transitions[tags[t - 1], tags[t]] * mask[t]
            score = score + emissions[t, rows, tags[t]] * mask[t]
        return score + self.end[tags[mask.sum(axis=0) - 1, rows]]

    def normalizer(self, emissions, mask):
        score = self.start + emissions[0]
        for emission, kept in zip(emissions[1:], mask[1:], strict=True):
            following = score[:, :, None] + self.transitions + emission[:, None, :]
            score = np.where(kept[:, None], logsumexp(following, axis=1), score)
        return logsumexp(score + self.end, axis=1)


class PytorchTutorial:
    """`BiLSTM_CRF` of PyTorch's tutorial: one sentence, [i, j] is to i from j, START and STOP."""

    def __init__(self, transitions, start, stop):
        self.transitions, self.start, self.stop = transitions, start, stop

    def log_likelihood(self, features, tags):
        return self.sentence_score(features, tags) - self.forward(features)

    def forward(self, features):
        alpha = np.full(len(self.transitions), -10000.0)
        alpha[self.start] = 0
        for feature in features:
            alpha = np.array(
                [
                    logsumexp(alpha + self.transitions[following] + feature[following], axis=0)
                    for following in range(len(alpha))
                ]
            )
        return logsumexp(alpha + self.transitions[self.stop], axis=0)

    def sentence_score(self, features, tags):
        score, before = 0.0, self.start
        for feature, tag in zip(features, tags, strict=True):
            score += self.transitions[tag, before] + feature[tag]
            before = tag
        return score + self.transitions[self.stop, before]


class BatchedFrom:
    """The tutorials' batched CRF, [i, j] is from i to j: BOS, EOS and, with a mask, PAD."""

    def __init__(self, transitions, bos, eos):
        self.transitions, self.bos, self.eos = transitions, bos, eos

    def log_likelihood(self, emissions, tags, mask):
        mask = mask.astype(float)
        return self.scores(emissions, tags, mask) - self.log_partition(emissions, mask)

    def scores(self, emissions, tags, mask):
        rows, first = np.arange(len(tags)), tags[:, 0]
        last = tags[rows, mask.sum(axis=1).astype(int) - 1]
        scores = self.transitions[self.bos, first] + emissions[rows, 0, first]
        for t in range(1, tags.shape[1]):
            step = emissions[rows, t, tags[:, t]] + self.transitions[tags[:, t - 1], tags[:, t]]
            scores = scores + step * mask[:, t]
        return scores + self.transitions[last, self.eos]

    def log_partition(self, emissions, mask):
        alphas = self.transitions[self.bos] + emissions[:, 0]
        for t in range(1, emissions.shape[1]):
            each_tag = [
                logsumexp(emissions[:, t, [tag]] + self.transitions[:, tag] + alphas, axis=1)
                for tag in range(emissions.shape[2])
            ]
            kept = mask[:, [t]]
            alphas = kept * np.stack(each_tag, axis=1) + (1 - kept) * alphas
        return logsumexp(alphas + self.transitions[:, self.eos], axis=1)


class BatchedTo:
    """The same with time first, [i, j] is to i from j, and BOS as the tag before the first."""

    def __init__(self, transitions, bos, eos):
        self.transitions, self.bos, self.eos = transitions, bos, eos

    def log_likelihood(self, emissions, tags, mask):
        first = np.full((len(tags), 1), self.bos)
        tags = np.concatenate([first, tags], axis=1).T
        emissions, mask = np.swapaxes(emissions, 0, 1), mask.T.astype(float)
        return self.score(emissions, tags, mask) - self.partition(emissions, mask)

    def score(self, emissions, tags, mask):
        rows, score = np.arange(tags.shape[1]), 0.0
        for t, (emission, kept) in enumerate(zip(emissions, mask, strict=True)):
            into = self.transitions[tags[t + 1], tags[t]]
            score = score + (emission[rows, tags[t + 1]] + into) * kept
        last = tags[mask.sum(axis=0).astype(int), rows]
        return score + self.transitions[self.eos, last]

    def partition(self, emissions, mask):
        scores = np.full(emissions.shape[1:], -10000.0)
        scores[:, self.bos] = 0
        for emission, kept in zip(emissions, mask[..., None], strict=True):
            arrived = scores[:, None, :] + emission[:, :, None] + self.transitions
            scores = logsumexp(arrived, axis=2) * kept + scores * (1 - kept)
        return logsumexp(scores + self.transitions[self.eos], axis=1)
