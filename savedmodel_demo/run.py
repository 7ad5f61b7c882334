"""Tags a sentence with an export, in a process that can import neither keras_crf nor Keras.

python savedmodel_demo/run.py DIRECTORY [a sentence, with spaces between the tokens]
"""

import sys

# None makes every import of these fail: what follows is TensorFlow's work alone.
sys.modules["keras_crf"] = None
sys.modules["keras"] = None

import tensorflow as tf  # noqa: E402

SENTENCE = "tell Paris the bus from new york to boston goes at quarter to nine"


def tag(directory, tokens):
    """Tags one sentence: rows `(token, tag, confidence)` and the log-probability of the whole."""
    tagger = tf.saved_model.load(directory)
    outputs = tagger.signatures["serving_default"](
        words=tf.constant([tokens]), lengths=tf.constant([len(tokens)], tf.int32)
    )
    tags = [name.decode("utf-8") for name in outputs["tags"][0].numpy()]
    rows = list(zip(tokens, tags, outputs["confidence"][0].numpy(), strict=True))
    return rows, float(outputs["log_prob"][0])


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    tokens = (" ".join(sys.argv[2:]) or SENTENCE).split()
    rows, log_prob = tag(sys.argv[1], tokens)
    for token, tag_name, confidence in rows:
        print(f"{token:>12}  {tag_name:<14} {confidence:.3f}")
    print(f"log-probability of these tags: {log_prob:.3f}")


if __name__ == "__main__":
    main()
