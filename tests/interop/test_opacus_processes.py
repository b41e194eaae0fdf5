"""dpcore.interop.opacus in forked and spawned processes, in threads, and beside the workers of a data loader."""

from __future__ import annotations

import multiprocessing
import os
import threading

import pytest

pytest.importorskip("opacus", reason="make test-interop PEER=opacus")

import torch

from dpcore.interop import opacus
from support.opacus_steps import optimizer_with, private, step

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")
WIDTH = 64


def noisy():
    """A gradient of noise alone, as bytes."""
    optimizer, (p,) = optimizer_with([torch.zeros(4, WIDTH)])
    with opacus.install():
        optimizer.step()
    return p.grad.numpy().tobytes()


def send(connection):
    connection.send_bytes(noisy())


@pytest.fixture(autouse=True)
def restored():
    yield
    opacus.uninstall()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_children_draw_their_own_noise():
    opacus.install()
    optimizer, (p,) = optimizer_with([torch.zeros(4, WIDTH)])
    optimizer.clip_and_accumulate()  # the parent's state is the children's
    reads = []
    for _ in range(3):
        read, write = os.pipe()
        if os.fork() == 0:
            try:
                optimizer.add_noise()
                os.write(write, p.grad.numpy().tobytes())
            finally:
                os._exit(0)
        os.close(write)
        reads.append(read)
    optimizer.add_noise()
    found = {p.grad.numpy().tobytes()} | {os.read(read, 1 << 16) for read in reads}
    for read in reads:
        os.close(read)
        os.wait()
    assert len(found) == 4
    assert {len(each) for each in found} == {4 * WIDTH}


def test_spawned_children_install_for_themselves():
    context, found = multiprocessing.get_context("spawn"), []
    opacus.install()
    for _ in range(2):
        receive, give = context.Pipe(duplex=False)
        child = context.Process(target=send, args=(give,))
        child.start()
        found.append(receive.recv_bytes())
        child.join()
        assert child.exitcode == 0
    assert len({*found, noisy()}) == 3


def test_threads_train_with_noise_of_their_own():
    opacus.install()
    found, barrier = [], threading.Barrier(4)

    def train():
        barrier.wait()
        for _ in range(20):
            optimizer, (p,) = optimizer_with([torch.zeros(4, WIDTH)])
            optimizer.step()
            found.append(p.grad.numpy().tobytes())

    threads = [threading.Thread(target=train) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 80


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_of_a_data_loader(context):
    records = torch.utils.data.TensorDataset(torch.ones(32, 3))
    loader = torch.utils.data.DataLoader(records, batch_size=8, num_workers=2, multiprocessing_context=context)
    with opacus.install():
        model, optimizer, loader = private(torch.nn.Linear(3, 2), records.tensors, loader=loader, poisson=True)
        for _ in range(2):
            step(model, optimizer, loader)
    assert next(model.parameters()).grad.isfinite().all()
