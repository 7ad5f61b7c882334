"""What the methods of a distribution share: how a function is run on its chains."""

from keras_crf import checks, likelihood


class Asking:
    """Base of the classes whose methods ask about `_chain`, the kept steps of `_steps`."""

    def _run(self, function, *others, **options):
        options["jit_compile"] = self._jit_compile
        return function(self._chain, self._steps, *others, **options)

    def _run_checked(self, function, tags):
        """`_run` on tags, with NaN in the result for the rows whose tags are no tags."""
        tags, right = checks.tags(tags, self._chain.potentials, self.mask)
        result = self._run(function, tags)
        return result + likelihood.nan_unless(right, result.dtype)
