"""Tags sentences with a TensorFlow Serving server, by REST and the standard library alone.

python savedmodel_demo/rest_client.py "book a flight to Paris" "order two green tea"
"""

import json
import urllib.error
import urllib.request

import client


def predict(server, model, inputs, seconds=10):
    """The outputs for `words` [B, T] and `lengths` [B], as a dict of lists of B rows.

    Raises:
        ValueError: inputs that are not sent, since a server cannot take them.
        client.ServerError: what the server says, or that there is none.
    """
    return client.ask(lambda part: _send(server, model, part, seconds), inputs)


def _send(server, model, inputs, seconds=10):
    """One request: inputs, a dict of nested lists, to outputs as such a dict."""
    request = urllib.request.Request(
        f"{server}/v1/models/{model}:predict",
        json.dumps({"signature_name": "serving_default", "inputs": inputs}).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            return json.load(answer)["outputs"]
    except urllib.error.HTTPError as error:
        raise client.ServerError(f"{request.full_url}: {error.code}, {_words(error)}") from None
    except OSError as error:  # nobody there, or no answer in time
        raise client.ServerError(f"{request.full_url}: {error}") from None


def _words(error):
    """What the server says: JSON with an "error", or something else from what stands before it."""
    body = error.read().decode("utf-8", "replace")
    try:
        return json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return body or error.reason


if __name__ == "__main__":
    client.main(__doc__, predict, "http://localhost:8501")
