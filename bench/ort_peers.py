"""The peers of the benchmark that run on onnxruntime; see peers.py."""
import statistics

import numpy as np

from inputs import decode_inputs, inputs, layer_inputs
from timing import sample


class Ort:
    """onnxruntime with bound inputs and outputs. Worker threads that spin after a call and ones that do not are both
    tried, and each case keeps the faster."""

    def __init__(self, threads):
        import onnxruntime
        self.ort = onnxruntime
        self.threads = threads

    def info(self):
        return {"onnxruntime": self.ort.__version__}

    def model(self, node, shape, constants=()):
        from onnx import TensorProto, helper
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("q", "k", "v", "o")]
        graph = helper.make_graph([node], "attention", values[:3], values[3:], initializer=constants)
        imports = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()

    def session(self, model, spin):
        options = self.ort.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spin else "0")
        return self.ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def bind(self, model, arrays, spin):
        session = self.session(model, spin)
        binding = session.io_binding()
        for name, array in zip("qkv", arrays):
            binding.bind_ortvalue_input(name, self.ort.OrtValue.ortvalue_from_numpy(array))
        result = self.ort.OrtValue.ortvalue_from_numpy(np.zeros_like(arrays[0]))
        binding.bind_ortvalue_output("o", result)

        def call():
            session.run_with_iobinding(binding)
            return result
        return call

    def fastest(self, model, arrays):
        calls = [self.bind(model, arrays, True)]
        first = sample(calls[0], 1)[0]
        if first > 100_000_000:  # makes no difference there, and the memory of two sessions would
            return calls[0]
        calls.append(self.bind(model, arrays, False))
        sample(calls[1], 1)
        return min(calls, key=lambda call: statistics.median(sample(call, max(1, min(200, 30_000_000 // first)))))


class OrtAttention(Ort):
    """The ONNX operator Attention, opset 23: [B,H,T,D]."""

    def prepare(self, shape, causal, _):
        from onnx import helper
        node = helper.make_node("Attention", ["q", "k", "v"], ["o"], is_causal=int(causal))
        return self.fastest(self.model(node, shape), inputs(shape))

    def array(self, result, shape):
        return result.numpy()


class OrtMha(Ort):
    """com.microsoft MultiHeadAttention: [B,T,H*D]."""

    def prepare(self, shape, causal, _):
        flat = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(shape[0], shape[2], -1) for x in inputs(shape)]
        return self.fastest(self.model(*self.node(shape, causal, flat[0].shape)), flat)

    def node(self, shape, causal, flat):
        from onnx import helper
        return helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["o"], domain="com.microsoft",
                                num_heads=shape[1], unidirectional=int(causal)), flat

    def array(self, result, shape):
        batch, heads, length, _ = shape
        return np.ascontiguousarray(result.numpy().reshape(batch, length, heads, -1).transpose(0, 2, 1, 3))


class OrtGqa(OrtMha):
    """com.microsoft GroupQueryAttention with as many kv heads as heads: causal only; also fills a key-value cache."""

    def node(self, shape, causal, flat):
        from onnx import helper, numpy_helper
        if not causal:
            raise ValueError("GroupQueryAttention is causal")
        node = helper.make_node("GroupQueryAttention", ["q", "k", "v", "", "", "last", "total"],
                                ["o", "keys", "values"], domain="com.microsoft", num_heads=shape[1],
                                kv_num_heads=shape[1])
        last = numpy_helper.from_array(np.full(shape[0], shape[2] - 1, dtype=np.int32), "last")
        return node, flat, [last, numpy_helper.from_array(np.array(shape[2], dtype=np.int32), "total")]

    def prepare_decode(self, sizes, storage):
        """The cache holds all keys but the last, which the call writes into it: past and present are one buffer."""
        from onnx import TensorProto, helper, numpy_helper
        batch, heads, kv_heads, length, dim = sizes
        q, *caches = decode_inputs(sizes, storage)
        new = [np.ascontiguousarray(cache[:, :, -1]).reshape(batch, 1, -1) for cache in caches]
        arrays = [q.reshape(batch, 1, -1).astype(storage), *new, *caches]
        values = dict(zip(("q", "k", "v", "past_k", "past_v"), arrays))
        kind = TensorProto.FLOAT16 if storage == np.float16 else TensorProto.FLOAT
        info = {name: helper.make_tensor_value_info(name, kind, value.shape) for name, value in values.items()}
        outputs = [helper.make_tensor_value_info("o", kind, values["q"].shape)] + [
            helper.make_tensor_value_info(name, kind, caches[0].shape) for name in ("keys", "values")]
        node = helper.make_node("GroupQueryAttention", [*values, "last", "total"], ["o", "keys", "values"],
                                domain="com.microsoft", num_heads=heads, kv_num_heads=kv_heads)
        constants = [numpy_helper.from_array(np.full(batch, length - 1, dtype=np.int32), "last"),
                     numpy_helper.from_array(np.array(length, dtype=np.int32), "total")]
        graph = helper.make_graph([node], "decode", list(info.values()), outputs, initializer=constants)
        imports = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()
        bound = {name: self.ort.OrtValue.ortvalue_from_numpy(value) for name, value in values.items()}
        result = self.ort.OrtValue.ortvalue_from_numpy(np.zeros_like(values["q"]))
        calls = [self.bind_decode(self.session(model, spin), bound, result) for spin in (True, False)]
        for call in calls:
            sample(call, 1)
        return min(calls, key=lambda call: min(sample(call, 3)))

    @staticmethod
    def bind_decode(session, bound, result):
        binding = session.io_binding()
        for name, value in bound.items():
            binding.bind_ortvalue_input(name, value)
        for name, value in (("o", result), ("keys", bound["past_k"]), ("values", bound["past_v"])):
            binding.bind_ortvalue_output(name, value)

        def call():
            session.run_with_iobinding(binding)
            return result
        return call


class OrtLayer(Ort):
    """com.microsoft Attention, which projects to q, k and v itself, then MatMul and Add for W_O."""

    def prepare_layer(self, sizes, mode):
        from onnx import TensorProto, helper, numpy_helper
        if mode != "forward":
            raise ValueError("onnxruntime infers, and this operator gives no weights")
        (x, _), (in_weight, in_bias, out_weight, out_bias) = layer_inputs(sizes)
        arrays = {"w_in": in_weight.T, "b_in": in_bias, "w_out": out_weight.T, "b_out": out_bias}
        constants = [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in arrays.items()]
        nodes = [helper.make_node("Attention", ["q", "w_in", "b_in"], ["heads"], domain="com.microsoft",
                                  num_heads=sizes[1]),
                 helper.make_node("MatMul", ["heads", "w_out"], ["mixed"]),
                 helper.make_node("Add", ["mixed", "b_out"], ["o"])]
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name in "qo"]
        graph = helper.make_graph(nodes, "layer", values[:1], values[1:], initializer=constants)
        imports = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()
        return self.fastest(model, [x])

    def array(self, result, shape):
        return result.numpy()
