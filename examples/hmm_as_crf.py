"""A hidden Markov model, the CRF that is the same, and where the two part.

    python examples/hmm_as_crf.py

Three boxes hold red and white balls. Behind a curtain someone draws a ball, says its colour, puts
it back, and goes on to a box by chance. Which boxes were they, if red, white, red was heard?
"""

import itertools

import numpy as np

from keras_crf import LinearChainCRF

COLOURS = ["red", "white"]
INITIAL = np.array([0.2, 0.4, 0.4])  # the first box
TRANSITION = np.array([[0.5, 0.2, 0.3], [0.3, 0.5, 0.2], [0.2, 0.3, 0.5]])  # from box to box
EMISSION = np.array([[0.5, 0.5], [0.4, 0.6], [0.7, 0.3]])  # of each box: red, white
HEARD = [0, 1, 0]


def joint_probability(boxes):
    """P(boxes, HEARD): each draw multiplies by the chance of its box, and of its colour there."""
    probability = 1.0
    chances = INITIAL
    for box, colour in zip(boxes, HEARD, strict=True):
        probability *= chances[box] * EMISSION[box, colour]
        chances = TRANSITION[box]
    return probability


def named(boxes):
    return " ".join(str(box + 1) for box in boxes)


def list_all_paths():
    print("1. The hidden Markov model, by listing all 27 ways through the boxes")
    paths = list(itertools.product(range(3), repeat=len(HEARD)))
    probabilities = np.array([joint_probability(path) for path in paths])
    best = int(np.argmax(probabilities))
    print(f"   P({', '.join(COLOURS[colour] for colour in HEARD)}) = {probabilities.sum():.6f}")
    print(f"   best: boxes {named(paths[best])}, P(boxes, colours) = {probabilities[best]:.4f}\n")


def ask_the_crf():
    print("2. The same as a CRF: scores are logarithms, so products become sums")
    crf = LinearChainCRF.from_hmm(INITIAL, TRANSITION, EMISSION, observations=[HEARD])
    best = crf.argmax()
    print(f"   exp(log_partition) = {np.exp(crf.log_partition())[0]:.6f}   the forward algorithm")
    print(
        f"   argmax = boxes {named(best.tags.numpy()[0])}, "
        f"exp(score) = {np.exp(best.score)[0]:.4f}   Viterbi"
    )
    print(f"   exp(log_prob) = {np.exp(crf.log_prob(best.tags))[0]:.4f}   P(boxes given colours)")
    print("   marginals, P(box given all colours), a row for each draw:")
    for chances in crf.marginals().numpy()[0]:
        print("   " + "  ".join(f"{chance:.4f}" for chance in chances))
    print(f"   entropy = {crf.entropy()[0]:.4f} nats of log 27 = {np.log(27):.4f}\n")
    return crf


def part_from_the_hmm(crf):
    print("3. What a CRF need not keep to: its scores are no probabilities, and sum to nothing")
    moved = LinearChainCRF(crf.potentials + 2.0, crf.transitions - 1.0, start=np.log(INITIAL))
    print(f"   all potentials + 2, transitions - 1: log_partition {moved.log_partition()[0]:.4f}")
    print(f"   and still the same distribution: KL divergence {crf.kl_divergence(moved)[0]:.4f}")
    clue = np.zeros([1, 3, 3])
    clue[0, 1, 1] = 2.0  # a noise at the second draw, as from box 2
    hinted = LinearChainCRF(crf.potentials + clue, crf.transitions, start=np.log(INITIAL))
    print(
        "   any clue adds to a step's potentials; no model of the clue is needed. A noise at box 2:"
    )
    print(f"   argmax = boxes {named(hinted.argmax().tags.numpy()[0])}\n")


def weather():
    print("4. Where observations are numbers, potentials are their log-densities")
    degrees = np.array([-2.0, 0, 2, 4, 6, 8, 10])
    mean, deviation = np.array([0.0, 15.0]), np.array([5.0, 10.0])  # of cold days, of hot ones
    log_densities = -0.5 * ((degrees[:, np.newaxis] - mean) / deviation) ** 2 - np.log(deviation)
    crf = LinearChainCRF(
        log_densities[np.newaxis], np.log([[0.7, 0.3], [0.2, 0.8]]), start=np.log([0.8, 0.2])
    )
    days = [("cold", "hot")[state] for state in crf.argmax().tags.numpy()[0]]
    print(f"   {' '.join(f'{degree:g}' for degree in degrees)} degrees: {' '.join(days)}")


def main():
    list_all_paths()
    part_from_the_hmm(ask_the_crf())
    weather()


if __name__ == "__main__":
    main()
