"""Those who wait for a commit."""

import asyncio

from peerage.stores.writer import Job, _settle


def test_futures_are_settled_in_the_order_of_commits():
    told = []

    async def scene():
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in range(9)]
        for i, future in enumerate(futures):
            future.add_done_callback(lambda _, i=i: told.append(i))
        for group in (futures[:5], futures[5:6], futures[6:]):
            _settle([Job(str, future) for future in group], [None] * len(group))
        await asyncio.gather(*futures)

    asyncio.run(scene())
    assert told == sorted(told)
