package telemetry

import "runtime/metrics"

// inUse returns how many bytes the objects and stacks of this process take. Unlike
// runtime.ReadMemStats it does not stop the world.
func inUse() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(samples)
	var sum int64
	for _, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			sum += int64(s.Value.Uint64())
		}
	}
	return sum
}
