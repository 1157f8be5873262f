"""The events of the demo: made from their number alone, so that anybody can check them."""

ACTIONS = ("view", "view", "view", "search", "cart", "buy")


def event(number: int) -> bytes:
    """Make the event with this number."""
    action = ACTIONS[number * 7919 % 104_729 % len(ACTIONS)]
    return (
        f'{{"event":{number},"user":{number * 31 % 977},"action":"{action}",'
        f'"page":"/item/{number * 17 % 4211}"}}'
    ).encode()
