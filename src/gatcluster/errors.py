"""What can go wrong for a user, by name."""


class InputError(ValueError):
    """Something a user gave cannot be used; the message says what, where, and what to do instead.

    A ``ValueError``, so that scikit-learn tools treat it as they treat any invalid argument. The command line prints
    the message on one line and ends with exit code 2.
    """


class ConvergenceWarning(UserWarning):
    """A fit ended in a state that the user should know of, such as fewer clusters in use than asked for."""
