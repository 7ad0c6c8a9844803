"""What can go wrong for a user, by name."""


class InputError(ValueError):
    """Something a user gave cannot be used; the message says what, where, and what to do instead.

    A ``ValueError``, so that scikit-learn tools treat it as they treat any invalid argument. The command line prints
    the message on one line and ends with exit code 2.
    """


class Interrupted(KeyboardInterrupt):
    """A signal asked this process to end; what was worth keeping is kept."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"ended by signal {signal_number}")
        self.exit_code = 128 + signal_number  # as shells have it


class ConvergenceWarning(UserWarning):
    """A fit ended in a state that the user should know of, such as fewer clusters in use than asked for."""
