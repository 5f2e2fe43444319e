package memory

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// AppendLog adds output under the task's attempt and returns the offset of its first byte.
func (t taskStore) AppendLog(id perdure.TaskID, attempt int, stream string, p []byte) (int64, error) {
	r, ok := t.tasks.get(string(id))
	switch {
	case !ok:
		return 0, fmt.Errorf("append to log of task %s: %w", id, perdure.NotFound)
	case r.value.Attempt != attempt:
		return 0, fmt.Errorf("append to log of task %s: %w: attempt %d, the task is at %d", id, perdure.Lost, attempt,
			r.value.Attempt)
	}
	log, _ := t.logs.get(string(id))
	start := logEnd(log)
	for rest := p; len(rest) > 0; {
		n := min(len(rest), store.MaxLogChunkBytes)
		log = append(log, store.LogChunk{ // outside of what a snapshot sees of the same array
			Offset: logEnd(log), Stream: stream, Attempt: attempt, At: t.now, Bytes: bytes.Clone(rest[:n]),
		})
		rest = rest[n:]
	}
	t.logs = t.logs.put(string(id), rotated(log))
	return start, nil
}

// SkipLog records that n bytes of output are missing. A chunk without bytes marks the gap.
func (t taskStore) SkipLog(id perdure.TaskID, attempt int, n int64) error {
	end, err := t.Tasks().AppendLog(id, attempt, "", nil)
	if err != nil || n < 1 {
		return err
	}
	log, _ := t.logs.get(string(id))
	t.logs = t.logs.put(string(id), rotated(append(log, store.LogChunk{Offset: end + n, Attempt: attempt, At: t.now})))
	return nil
}

// rotated returns a log without its middle: the head and the tail stay.
func rotated(log []store.LogChunk) []store.LogChunk {
	from := slices.IndexFunc(log, func(c store.LogChunk) bool { return c.Offset >= store.LogHeadBytes })
	last := logEnd(log) - store.LogTailBytes - store.MaxLogChunkBytes
	if from < 0 || log[from].Offset >= last {
		return log
	}
	to := from
	for log[to].Offset < last {
		to++
	}
	return slices.Concat(log[:from], log[to:]) // a snapshot sees the old array
}

// ReadLog returns chunks from byte offset on, at most max bytes; the first is cut to start at
// offset.
func (v taskStore) ReadLog(id perdure.TaskID, offset int64, max int) (chunks []store.LogChunk, end int64, err error) {
	if !v.tasks.has(string(id)) {
		return nil, 0, fmt.Errorf("read log of task %s: %w", id, perdure.NotFound)
	}
	log, _ := v.logs.get(string(id))
	end = logEnd(log)
	from := min(offset, end)
	to := from + min(int64(max), end-from)
	next := from
	for _, c := range log {
		if c.Offset > next && from < to && len(c.Bytes) > 0 {
			if len(chunks) == 0 {
				return nil, 0, fmt.Errorf("read log of task %s: %w", id,
					&perdure.LogRotated{Offset: from, First: c.Offset})
			}
			break
		}
		first, last := clamp(from-c.Offset, c.Bytes), clamp(to-c.Offset, c.Bytes)
		if first < last {
			c.Offset, c.Bytes = c.Offset+first, bytes.Clone(c.Bytes[first:last])
			chunks, next = append(chunks, c), c.Offset+int64(len(c.Bytes))
		}
	}
	return chunks, end, nil
}

// clamp limits an index to the range of p.
func clamp(i int64, p []byte) int64 { return min(max(i, 0), int64(len(p))) }

func logEnd(log []store.LogChunk) int64 {
	if len(log) == 0 {
		return 0
	}
	last := log[len(log)-1]
	return last.Offset + int64(len(last.Bytes))
}
