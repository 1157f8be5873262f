"""``aof2 completion``: what a shell needs to complete commands and options."""

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from aof2.cli.options import examples, json_option
from aof2.cli.output import Output

_SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command(
    "completion",
    epilog=examples(
        'eval "$(aof2 completion bash)"                    # in ~/.bashrc',
        'eval "$(aof2 completion zsh)"                     # in ~/.zshrc',
        "aof2 completion fish > ~/.config/fish/completions/aof2.fish",
    ),
)
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@json_option
def command(shell: str, as_json: bool) -> None:
    """Print completion for bash, zsh or fish."""
    from aof2.cli.app import COMPLETE_VARIABLE, cli

    completion = _SHELLS[shell](cli, {}, "aof2", COMPLETE_VARIABLE)
    # Not source(): for bash that starts a bash to ask for its version.
    script = completion.source_template % completion.source_vars()
    out = Output(as_json=as_json)
    if as_json:
        out.object({"shell": shell, "script": script})
    else:
        print(script)
