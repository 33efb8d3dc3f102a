"""Calls whose outcomes are compared with those of PyTorch's gloo group of one process.

Run as a program, this file prints the outcomes of one library as JSON. Each call is an expression
or, where it begins with ``!``, statements that leave their answer in ``answer``.
"""
# ruff: noqa: E501

import datetime
import importlib
import json
import os
import pickle
import sys
import tempfile
import warnings

FUTURES = """
! f = t.futures.Future(); answer = [f.done()]; f.set_result(3); answer += [f.done(), f.value(), f.wait()]
! f = t.futures.Future(); f.set_result(3); f.set_result(4)
t.futures.Future().value()
! f = t.futures.Future(); f.set_exception(ValueError("foo")); answer = f.done()
! f = t.futures.Future(); f.set_exception(ValueError("foo")); f.wait()
! f = t.futures.Future(); f.set_exception(ValueError("foo")); f.value()
t.futures.Future().set_exception(3)
! f = t.futures.Future(); g = f.then(lambda x: x.wait() + 1); f.set_result(1); answer = g.wait()
! f = t.futures.Future(); g = f.then(lambda x: 1 / 0); f.set_result(1); g.wait()
! f = t.futures.Future(); g = f.then(lambda x: x.value()); f.set_exception(ValueError("q")); answer = g.done()
! f = t.futures.Future(); g = f.then(lambda x: x.value()); f.set_exception(ValueError("q")); g.wait()
! answer = []; f = t.futures.Future(); f.add_done_callback(lambda x: answer.append(x.value())); f.set_result(1)
t.futures.Future().then(3)
! a, b = t.futures.Future(), t.futures.Future(); c = t.futures.collect_all([a, b]); a.set_result(1); answer = [c.done()]; b.set_result(2); answer += [c.done()] + [x.wait() for x in c.wait()]
t.futures.collect_all([]).wait(), t.futures.wait_all([])
! a, b = t.futures.Future(), t.futures.Future(); c = t.futures.collect_all([a, b]); a.set_exception(ValueError("x")); answer = [c.done()]; b.set_result(2); answer += [c.done()]
! a = t.futures.Future(); a.set_exception(ValueError("x")); t.futures.wait_all([a])
t.futures.collect_all([3])
t.futures.wait_all(3)
t.futures.Future(devices=["cpu"])
t.futures.Future[int] is not None, t.Future is not None
pickle.dumps(t.futures.Future())
"""

STORES = (
    "d.HashStore()",
    "d.FileStore(tempfile.mktemp(), 1)",
    "d.PrefixStore('p', d.HashStore())",
    "d.PrefixStore('p', d.PrefixStore('q', d.HashStore()))",
)

WITH_A_STORE = """
s.set("a", "b"), s.get("a"), s.check(["a"]), s.check(["a", "zz"])
s.add("n", 3), s.add("n", 4), s.get("n")
! s.set("x", b"\\x00y"); answer = s.get("x")
s.set("x", 3)
s.set(3, "x")
s.get(3)
s.delete_key("a"), s.check(["a"])
s.compare_set("q", "old", "new"), s.check(["q"])
s.compare_set("q", "", "new"), s.get("q")
s.compare_set("q", "new", "n2"), s.get("q")
s.compare_set("q", "zz", "n3"), s.get("q")
s.compare_set("q", 3, 4)
! s.set_timeout(datetime.timedelta(seconds=0.05)); answer = str(s.timeout)
s.get("nope")
s.wait(["nope"], datetime.timedelta(seconds=0.05))
s.wait(["q"])
s.wait("q")
s.append("ap", "x"), s.append("ap", "y"), s.get("ap")
! s.multi_set(["m1", "m2"], ["1", "2"]); answer = s.multi_get(["m1", "m2"])
s.add("bad", "x")
! s.set("str", "xx"); s.add("str", 1)
! s.queue_push("qq", "v1"); s.queue_push("qq", "v2"); answer = s.queue_len("qq"), s.queue_pop("qq"), s.queue_pop("qq")
s.queue_pop("qq", False)
s.queue_pop("qq")
{"q", "ap", "m1", "m2", "x", "n"} <= set(s.list_keys())
s.has_extended_api()
s.barrier("b", 1, datetime.timedelta(seconds=1))
s.clone().get("q")
"""

BEFORE = """
d.is_available()
d.is_initialized()
d.get_rank()
d.get_world_size()
d.get_backend()
d.all_reduce(t.ones(2))
d.barrier()
d.new_group([0])
d.group.WORLD
d.GroupMember.WORLD
d.GroupMember.NON_GROUP_MEMBER
d.destroy_process_group()
d.distributed_c10d._get_default_group()
d.get_default_backend_for_device("cpu"), d.get_default_backend_for_device(t.device("cuda:1"))
d.get_default_backend_for_device("meta")
d.get_default_backend_for_device("xyz")
d.get_node_local_rank()
d.get_node_local_rank(3)
d.is_torchelastic_launched()
[d.is_backend_available(n) for n in ("gloo", "GLOO", "xyz", "ucc")]
d.is_gloo_available(), d.is_ucc_available()
d.init_process_group("gloo")
d.init_process_group("gloo", init_method="foo://")
d.init_process_group("gloo", init_method=3)
d.init_process_group("gloo", store=s)
d.init_process_group("gloo", store=s, rank=0)
d.init_process_group("gloo", store=s, rank=0, world_size=1, init_method="env://")
d.init_process_group("gloo", init_method="file:///never-made")
d.init_process_group("gloo", init_method="file://", rank=0, world_size=1)
d.init_process_group("gloo", init_method="tcp://127.0.0.1:29871")
d.init_process_group("gloo", init_method="tcp://127.0.0.1", rank=0, world_size=1)
d.init_process_group("xyz", store=s, rank=0, world_size=1)
d.init_process_group("cpu:xyz", store=s, rank=0, world_size=1)
d.init_process_group("cpu:gloo,cpu:gloo", store=s, rank=0, world_size=1)
d.init_process_group("cpu:gloo,cuda", store=s, rank=0, world_size=1)
d.init_process_group("xyz:gloo", store=s, rank=0, world_size=1)
d.init_process_group("gloo", store=s, rank=0, world_size=1, timeout=5)
d.init_process_group("gloo", store=3, rank=0, world_size=1)
d.init_process_group("gloo", store=s, rank=1, world_size=1)
d.init_process_group("gloo", store=s, rank=-1, world_size=1)
d.init_process_group("gloo", store=s, rank="0", world_size=1)
d.init_process_group("gloo", store=s, rank=0, world_size=1, device_id=t.device("cpu"))
d.init_process_group(3, store=s, rank=0, world_size=1)
d.is_initialized()
d.ReduceOp.SUM, str(d.ReduceOp.AVG), d.ReduceOp.RedOpType.MAX
d.ReduceOp(d.ReduceOp.SUM) == d.ReduceOp.SUM, d.ReduceOp.SUM == d.ReduceOp.RedOpType.SUM
hash(d.ReduceOp.MIN), d.reduce_op.SUM == d.ReduceOp.SUM
d.Backend("gloo"), d.Backend("GLOO"), d.Backend.GLOO, d.Backend("foo"), d.Backend("")
d.Backend(3)
[c.__name__ for c in d.QueueEmptyError.__mro__], [c.__name__ for c in d.DistBackendError.__mro__]
d.get_debug_level(), d.DebugLevel.DETAIL, d.default_pg_timeout
d.supports_complex(d.ReduceOp.MAX), d.supports_complex(d.ReduceOp.SUM)
! d.init_process_group(None, store=d.HashStore(), rank=0, world_size=1); answer = d.get_backend(), d.group.WORLD.group_desc; d.destroy_process_group()
! d.init_process_group("cpu:gloo,cuda:gloo", store=d.HashStore(), rank=0, world_size=1); answer = d.get_backend(), d.get_backend_config(); d.destroy_process_group()
! d.init_process_group("cpu:gloo", store=d.HashStore(), rank=0, world_size=1); answer = d.get_backend(), d.get_backend_config(); d.destroy_process_group()
! d.init_process_group("GLOO", store=d.HashStore(), rank=0, world_size=1); answer = d.get_backend(), d.get_backend_config(); d.destroy_process_group()
! os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0", LOCAL_RANK="0"); answer = d.get_node_local_rank(5)
! d.init_process_group(); answer = d.get_rank(), d.get_world_size(); d.destroy_process_group()
! d.init_process_group("gloo", rank=0, world_size=1); answer = d.get_rank(), d.get_world_size(); d.destroy_process_group()
! d.init_process_group("gloo", init_method="file://" + tempfile.mktemp() + "?rank=0&world_size=1"); answer = d.get_rank(), d.get_world_size(); d.destroy_process_group()
! d.init_process_group("gloo", init_method="file://" + tempfile.mktemp(), rank=0, world_size=1); answer = d.get_rank(), d.get_world_size(); d.destroy_process_group()
"""

INSIDE = """
d.init_process_group("gloo", store=s, rank=0, world_size=1)
g.rank(), g.size(), g.name(), g.group_desc, d.group.WORLD.group_desc, g.bound_device_id
d.new_group([0, 0])
d.new_group([1])
d.new_group([-1])
d.new_group(["0"])
d.new_group([0], backend="xyz")
d.new_group(timeout=datetime.timedelta(seconds=3)).size()
d.new_group(timeout=3)
d.new_group([0], group_desc="hey").group_desc
d.new_group([0], sort_ranks=False).rank()
[x.size() for x in d.new_subgroups(1)[1]], d.new_subgroups(1)[0].rank()
d.new_subgroups()
d.new_subgroups(2)
d.new_subgroups(0)
d.new_subgroups_by_enumeration([[0]])[0].size()
d.new_subgroups_by_enumeration([[0], [0]])
d.new_subgroups_by_enumeration([])
d.get_rank(g), d.get_rank(n), d.get_world_size(n), d.get_rank(None)
d.get_rank(3)
d.get_backend(g)
d.get_backend(n)
d.get_group_rank(g, 0)
d.get_group_rank(g, 1)
d.get_global_rank(g, 0)
d.get_global_rank(g, 1)
d.get_global_rank(d.group.WORLD, 7)
d.get_process_group_ranks(g), d.get_process_group_ranks(None)
d.get_process_group_ranks(n)
d.get_backend_config()
d.all_reduce(t.ones(2), group=n)
d.all_reduce(t.ones(2), group=3)
d.all_reduce(t.ones(2), op=3)
d.all_reduce(t.ones(2), op="SUM")
d.all_reduce([t.ones(2)])
d.all_reduce(3)
d.all_reduce(t.ones(2), op=d.ReduceOp.AVG)
d.all_reduce(t.ones(2), op=d.ReduceOp.BAND)
d.all_reduce(t.ones(2).int(), op=d.ReduceOp.BAND)
d.all_reduce(t.ones(2).int(), op=d.ReduceOp.AVG)
d.all_reduce(t.ones(2), op=d.ReduceOp.PREMUL_SUM)
d.all_reduce(t.ones(2, dtype=t.complex64), op=d.ReduceOp.MAX)
d.all_reduce(t.ones(2, dtype=t.complex64))
d.all_reduce(t.ones(2, 3).t())
d.all_reduce(t.ones(2, 3)[:, ::2])
d.all_reduce(t.ones(0))
d.all_reduce(t.ones(()))
d.all_reduce(t.ones(2, device="meta"))
d.all_reduce(t.ones(2, requires_grad=True))
d.all_reduce(t.ones(2).bool())
d.all_reduce(t.ones(2).half()), d.all_reduce(t.ones(2).bfloat16())
d.broadcast(t.ones(2), 0)
d.broadcast(t.ones(2), src=1)
d.broadcast(t.ones(2))
d.broadcast(t.ones(2), src=0, group_src=0)
d.broadcast(t.ones(2), group_src=0)
d.broadcast(t.ones(2), group_src=1)
d.broadcast(t.ones(2), src=1, group=g)
d.broadcast(t.ones(2), src="0")
d.broadcast(t.ones(2), 0, group=n)
d.broadcast([t.ones(2)], 0)
d.broadcast(t.ones(2, 3)[:, ::2], 0)
d.broadcast(t.ones(2, device="meta"), 0)
d.reduce(t.ones(2), 0)
d.reduce(t.ones(2), 1)
d.reduce(t.ones(2))
d.reduce(t.ones(2), group_dst=0, op=d.ReduceOp.MAX)
d.reduce(t.ones(2), 0, op=3)
d.all_gather([], t.ones(2))
d.all_gather([t.ones(2)], t.ones(3))
d.all_gather([t.ones(2), t.ones(2)], t.ones(2))
d.all_gather([t.ones(2)], t.ones(2).double())
d.all_gather(t.ones(2), t.ones(2))
d.all_gather([1], t.ones(2))
d.all_gather([t.ones(2)], [t.ones(2)])
d.all_gather([t.ones(1, 2)], t.ones(2))
d.all_gather([t.ones(2)], t.ones(2), group=n)
d.all_gather([t.ones(2, requires_grad=True)], t.ones(2))
d.all_gather_into_tensor(t.ones(3), t.ones(2))
d.all_gather_into_tensor(t.ones(2), t.ones(2).double())
d.all_gather_into_tensor(t.ones(2, 3), t.ones(3, 2))
d.all_gather_into_tensor([t.ones(2)], t.ones(2))
d.reduce_scatter(t.ones(2), [])
d.reduce_scatter(t.ones(2), [t.ones(3)])
d.reduce_scatter(t.ones(2), [t.ones(2), t.ones(2)])
d.reduce_scatter(t.ones(2), t.ones(2))
d.reduce_scatter(t.ones(2).int(), [t.ones(2)])
d.reduce_scatter_tensor(t.ones(2), t.ones(3))
d.reduce_scatter_tensor(t.ones(2), t.ones(2).int())
d.all_to_all_single(t.ones(2), t.ones(3))
d.all_to_all_single(t.ones(2), t.ones(2), [1], [2])
d.all_to_all_single(t.ones(2), t.ones(2), [2, 0], [2])
d.all_to_all_single(t.ones(2), t.ones(2).int())
d.all_to_all([t.ones(2)], t.ones(2))
d.all_to_all([t.ones(2)], [t.ones(2), t.ones(2)])
d.gather(t.ones(2))
d.gather(t.ones(2), [])
d.gather(t.ones(2), [t.ones(3)])
d.gather(t.ones(2), [t.ones(2)], dst=1)
d.gather(t.ones(2), [t.ones(2).int()])
d.gather(t.ones(2), [t.ones(2), t.ones(2)])
d.scatter(t.ones(2))
d.scatter(t.ones(2), [])
d.scatter(t.ones(2), [t.ones(3)])
d.scatter(t.ones(2), [t.ones(2)], src=1)
d.scatter(t.ones(2), [t.ones(2).int()])
d.scatter(t.ones(2), [t.ones(2)] * 2)
d.scatter(t.ones(2), t.ones(2))
d.send(t.ones(2), 0)
d.isend(t.ones(2), 0)
d.isend(t.ones(2))
d.isend(t.ones(2), 0, group=n)
d.send(t.ones(2), 0, group=n)
d.P2POp(d.isend, t.ones(2), 0).peer
d.P2POp(d.send, t.ones(2), 1)
d.batch_isend_irecv([])
d.batch_isend_irecv([3])
d.batch_isend_irecv(3)
d.barrier()
d.barrier(group=g, device_ids=[0])
d.barrier(group=n)
d.monitored_barrier()
d.monitored_barrier(group=n)
d.monitored_barrier(timeout=datetime.timedelta(seconds=1), wait_all_ranks=True)
! answer = [None]; d.all_gather_object(answer, {"a": 1})
! answer = [None, 2]; d.all_gather_object(answer, {"a": 1})
! answer = []; d.all_gather_object(answer, {"a": 1})
! answer = [None]; d.gather_object("x", answer)
d.gather_object("x")
d.gather_object("x", [None], dst=1)
! answer = ["a", 3]; d.broadcast_object_list(answer)
d.broadcast_object_list(["a"], src=1)
d.broadcast_object_list([])
d.broadcast_object_list(3)
d.broadcast_object_list([lambda: 1])
! answer = [None]; d.scatter_object_list(answer, ["q"])
d.scatter_object_list([], ["q"])
d.scatter_object_list([None], None)
d.scatter_object_list([None], ["a", "b"])
d.scatter_object_list(3, ["a", "b"])
d.send_object_list([1], 0)
d.recv_object_list([1], 0)
d.all_gather_object([None], 1, group=n)
d.broadcast_object_list([1], 0, group=n)
! answer = [t.ones(2)]; d.broadcast_object_list(answer, device=t.device("cpu"))
! o = [None]; d.all_gather_object(o, t.ones(2, requires_grad=True)); answer = o, o[0].requires_grad
! w = d.all_reduce(t.ones(2), async_op=True); answer = w.wait(), w.is_completed(), w.is_success(), w.get_future().value(), w.exception(), w.result()
! w = d.all_reduce(t.ones(2), async_op=True); answer = w.source_rank()
! w = d.all_reduce(t.ones(2), async_op=True); answer = w.get_future().then(lambda f: f.value()[0] * 2).wait()
! w = d.barrier(async_op=True); answer = w.wait(), w.get_future().wait()
! w = d.broadcast(t.ones(2), 0, async_op=True); answer = w.wait(), w.result()
! x = t.zeros(2); w = d.all_gather([x], t.ones(2), async_op=True); answer = w.wait(), w.get_future().wait(), x
! x = t.zeros(2); w = d.gather(t.ones(2), [x], async_op=True); answer = w.wait(), w.result(), x
! x = t.zeros(2, 3)[:, ::2]; d.all_gather([x], t.arange(4.).reshape(2, 2)); answer = x
! x = t.zeros(2, 3).t(); d.all_gather([x], t.arange(6.).reshape(3, 2)); answer = x
! x = t.zeros(2, 3).t(); d.all_gather([x], t.arange(6.).reshape(2, 3).t()); answer = x
! x = t.zeros(2, dtype=t.complex64); d.all_gather([x], t.tensor([1 + 2j, 3])); answer = x
! x = t.zeros(0, 3); d.all_gather([x], t.ones(0, 3)); answer = x
! x = t.zeros(()); d.all_gather([x], t.tensor(4.)); answer = x
! x = t.zeros(2); d.all_gather_into_tensor(x, t.tensor([1., 2])); answer = x
! x = t.zeros(2, 3).t(); d.all_gather_into_tensor(x, t.arange(6.).reshape(3, 2)); answer = x
! x = t.zeros(2); d.reduce_scatter(x, [t.tensor([1., 2])]); answer = x
! x = t.zeros(2); d.reduce_scatter_tensor(x, t.tensor([1., 2]), op=d.ReduceOp.MAX); answer = x
! x = t.zeros(2, 3).t(); d.reduce_scatter_tensor(x, t.arange(6.).reshape(3, 2)); answer = x
! x = t.zeros(2); d.all_to_all([x], [t.tensor([1., 2])]); answer = x
! x = t.zeros(2); d.all_to_all_single(x, t.tensor([1., 2])); answer = x
! x = t.zeros(2); d.all_to_all_single(x, t.tensor([1., 2]), [2], [2]); answer = x
! x = t.zeros(2); d.scatter(x, [t.tensor([1., 2])]); answer = x
! x = t.ones(2); d.all_reduce(x); d.broadcast(x, 0); answer = x._version
! x = t.ones(2, requires_grad=True); y = x * 2; d.all_reduce(y); y.sum().backward(); answer = x.grad
! x = t.ones(2, requires_grad=True); d.all_gather([t.ones(2)], x); answer = x.requires_grad
! x = t.ones(2, requires_grad=True)
! with t.no_grad(): d.all_gather([x], t.tensor([3., 4])); answer = x.detach()
! x = t.arange(4.).requires_grad_(); (F.all_reduce(x) * F.broadcast(x, 0)).sum().backward(); answer = x.grad
! x = t.arange(4.).requires_grad_(); (F.all_gather(x)[0] ** 2).sum().backward(); answer = F.gather(x)[0].detach(), x.grad
! x = t.arange(4.).requires_grad_(); y = F.reduce_scatter(t.zeros(4), [x * 3]) + F.scatter([x * x]); y.sum().backward(); answer = y.detach(), x.grad
! x = t.arange(4.).requires_grad_(); y = F.all_to_all_single(t.zeros(4), x * 2); y.sum().backward(); answer = y.detach(), x.grad
! x = t.arange(4.).requires_grad_(); y = F.reduce(x * 2, 0, d.ReduceOp.MAX); y.sum().backward(); answer = y.detach(), x.grad
DDP(t.nn.ReLU())
DDP(linear(), device_ids=[0])
DDP(linear(), device_ids=[0, 1])
DDP(linear(), process_group=3)
DDP(linear(), process_group=n)
str(DDP(linear())), list(DDP(linear()).state_dict()), DDP(linear()).device_ids, DDP(linear()).dim
DDP(linear(), static_graph=True).static_graph, DDP(linear()).broadcast_buffers, DDP(linear()).device
DDP(linear(), device_ids=[]).device_ids, DDP(linear()).require_backward_grad_sync
! m = DDP(linear()); m(t.ones(2, 3)).sum().backward(); answer = [p.grad for p in m.parameters()]
! m = DDP(linear()); m.register_comm_hook(None, doubled); m(t.ones(2, 3)).sum().backward(); answer = [p.grad for p in m.parameters()]
! m = DDP(linear()); m.register_comm_hook(None, doubled); m.register_comm_hook(None, doubled)
DDP(linear()).register_comm_hook(None, 3)
! def hook(state, bucket: int): pass
DDP(linear()).register_comm_hook(None, hook)
! def hook(state, bucket) -> int: pass
DDP(linear()).register_comm_hook(None, hook)
! m = DDP(linear()); answer = m.load_state_dict(m.state_dict())
! m = pickle.loads(pickle.dumps(DDP(linear()))); answer = m(t.ones(1, 3))
! z = Z(linear().parameters(), t.optim.SGD, lr=0.1); z.state_dict()
Z(t.ones(2), t.optim.SGD, lr=0.1)
Z([], t.optim.SGD, lr=0.1)
Z(3, t.optim.SGD, lr=0.1)
! l = linear(); z = Z(l.parameters(), t.optim.Adam, lr=0.1); l(t.ones(2, 3)).sum().backward(); z.step(); z.consolidate_state_dict(); w = z.state_dict(); answer = list(l.parameters()), w["state"], w["param_groups"][0]["params"], w["param_groups"][0]["lr"]
! l = linear(); z = Z(l.parameters(), t.optim.SGD, lr=0.1); z.param_groups[0]["lr"] = 0.5; l(t.ones(2, 3)).sum().backward(); z.step(); answer = list(l.parameters())
! l = linear(); z = Z([l.weight], t.optim.SGD, lr=0.1); z.add_param_group({"params": [l.bias], "lr": 1.0}); l(t.ones(2, 3)).sum().backward(); z.step(); answer = list(l.parameters())
! m = DDP(linear()); J([m]).__enter__(); answer = "inside"
J([])
! m = W.checkpoint_wrapper(linear()); answer = list(m.state_dict()), [n for n, _ in m.named_parameters()], m.in_features
! m = t.nn.Sequential(linear(), t.nn.Sequential(linear())); W.apply_activation_checkpointing(m, check_fn=lambda x: isinstance(x, t.nn.Linear)); answer = str(m).replace("\\n", ";"), list(m.state_dict())
! m = t.nn.Sequential(linear(), t.nn.Sequential(linear())); W.apply_activation_checkpointing(m); answer = str(m).replace("\\n", ";")
A(0)
A(2, -1)
! a = A(2); l = linear(); l(t.ones(2, 3)).sum().backward(); a.average_parameters(l.parameters()); a.average_parameters([{"params": l.parameters()}]); answer = a.step, list(l.parameters())
! m = d.init_device_mesh("cpu", (1, 1), mesh_dim_names=("a", "b")); answer = m.shape, m.ndim, m.size(), m.mesh, m["a"].mesh, m.get_coordinate(), m.get_local_rank("b"), m.get_group("a").size(), m.mesh_dim_names, m.device_type
! m = d.init_device_mesh("cpu", (1,)); answer = m.get_group() is d.group.WORLD, m.get_rank(), m.get_local_rank(), len(m.get_all_groups())
d.init_device_mesh("cpu", (2,))
d.init_device_mesh("cpu:0", (1,))
d.init_device_mesh("cpu", (1,), mesh_dim_names=("a", "b"))
d.init_device_mesh("cpu", (1, 1), mesh_dim_names=("a", "a"))
d.init_device_mesh("cpu", (1,))["a"]
d.init_device_mesh("cpu", (1,), mesh_dim_names=("a",))["b"]
d.init_device_mesh("cpu", (1, 1)).get_group()
d.DeviceMesh("cpu", [0]).mesh, d.DeviceMesh("cpu", [[0]]).shape
d.DeviceMesh("cpu", [0, 0])
d.DeviceMesh.from_group(g, "cpu").mesh
pickle.dumps(g)
d.destroy_process_group(g)
d.get_rank(g)
d.destroy_process_group(g)
d.destroy_process_group(n)
d.destroy_process_group()
d.is_initialized()
d.destroy_process_group()
"""


def calls(text):
    return [line for line in text.strip().splitlines() if line]


def all_calls():
    """Return the calls of all parts, in order."""
    with_stores = [f"! s = {make}\n{WITH_A_STORE}" for make in STORES]
    return [call for text in (FUTURES, *with_stores, BEFORE, INSIDE) for call in calls(text)]


def described(value):
    """Return a value as JSON has it, with all that can be seen of tensors."""
    if isinstance(value, tuple | list):
        return [described(each) for each in value]
    if isinstance(value, dict):
        return {str(key): described(each) for key, each in value.items()}
    if hasattr(value, "stride"):
        dtype = str(value.dtype).rsplit(".", maxsplit=1)[-1]
        numbers = value.detach()
        numbers = numbers.reshape(-1).tolist()
        numbers = [f"{each:.5g}" if isinstance(each, float) else str(each) for each in numbers]
        return [dtype, list(value.shape), list(value.stride()), numbers]
    return value if type(value) in (bool, int, type(None)) else str(value)


def outcome(call, names):
    """Return what a call gives, or the names of its exception and what that is."""
    names.pop("answer", None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if call.startswith("!"):
                exec(call[1:].strip(), names)
                return ["answer", described(names.get("answer"))]
            return ["answer", described(eval(call, names))]
    except Exception as error:
        return ["error", [kind.__name__ for kind in type(error).__mro__], str(error)]


def parallel_names(library, torch):
    """Return what the calls about training name."""

    def part(path):
        return importlib.import_module(f"{library}.distributed.{path}")

    def linear():
        made = torch.nn.Linear(3, 2)
        with torch.no_grad():
            made.weight.copy_(torch.arange(6.0).reshape(2, 3) / 8)
            made.bias.copy_(torch.tensor([0.5, -1.0]))
        return made

    def doubled(state, bucket):
        future = torch.futures.Future()
        future.set_result(bucket.buffer() * 2)
        return future

    return {
        "linear": linear,
        "doubled": doubled,
        "DDP": torch.nn.parallel.DistributedDataParallel,
        "F": part("nn.functional"),
        "Z": part("optim").ZeroRedundancyOptimizer,
        "J": part("algorithms.join").Join,
        "W": part("algorithms._checkpoint.checkpoint_wrapper"),
        "A": part("algorithms.model_averaging.averagers").PeriodicModelAverager,
    }


def main(library):
    torch = __import__(library)
    distributed = __import__(f"{library}.distributed").distributed
    if library == "tapegrad":
        __import__("tapegrad.distributed.distributed_c10d")
    names = {"t": torch, "d": distributed, "datetime": datetime, "os": os, "pickle": pickle}
    names |= {"tempfile": tempfile, "s": distributed.HashStore()}
    names["n"] = distributed.GroupMember.NON_GROUP_MEMBER
    before = all_calls()[: -len(calls(INSIDE))]
    first = before.index(calls(BEFORE)[0])
    found = [outcome(call, names) for call in before[:first]]
    names["s"] = distributed.HashStore()
    found += [outcome(call, names) for call in before[first:]]
    distributed.init_process_group("gloo", store=names["s"], rank=0, world_size=1)
    names["g"] = distributed.new_group([0])
    names |= parallel_names(library, torch)
    found += [outcome(call, names) for call in calls(INSIDE)]
    print("OUTCOMES " + json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
