"""The commands of the command line.

calls    a function for each, from the options to a result
table    what each is called, says and accepts
"""

from mindport.commands.calls import model_path
from mindport.commands.table import COMMANDS, Command

__all__ = ["COMMANDS", "Command", "model_path"]
