"""What an evaluation meets when the program itself raises an error."""


class RaisedError(Exception):
    """The program raises an error on the path that is evaluated; the message is the program's own."""
