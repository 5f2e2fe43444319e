package remote

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/sse"
)

// logBytes is the number of bytes of a log per request.
const logBytes = 1 << 20

// Log returns output from a byte offset. It reads a long piece in several requests.
func (e engineTasks) Log(ctx context.Context, id perdure.TaskID, offset int64, max int) (engine.Log, error) {
	log, err := e.logPage(ctx, id, offset, min(max, logBytes))
	for err == nil && log.Next < log.End && log.Next-log.Offset < int64(max) {
		var more engine.Log
		more, err = e.logPage(ctx, id, log.Next, int(min(int64(max)-(log.Next-log.Offset), logBytes)))
		if gone := (*perdure.LogRotated)(nil); errors.As(err, &gone) {
			return log, nil // the rest has been rotated away
		}
		if err == nil && more.Next <= log.Next {
			break // the server has no more output, whatever its end says
		}
		log.Next, log.End, log.Chunks = more.Next, more.End, append(log.Chunks, more.Chunks...)
	}
	return log, err
}

// logPage is Tasks.Log for a single request. With 0 bytes it only reports the end of the log.
func (e *Engine) logPage(ctx context.Context, id perdure.TaskID, offset int64, most int) (log engine.Log, err error) {
	query := url.Values{"offset": {strconv.FormatInt(offset, 10)}, "limit": {strconv.Itoa(max(most, 1))}}
	_, err = e.call(ctx, request{what: "log of " + string(id), path: taskPath(id) + "/log", query: query}, &log)
	var problem *Problem
	if errors.As(err, &problem) && problem.First != nil {
		err = fmt.Errorf("log of %s: %w", id, &perdure.LogRotated{Offset: offset, First: *problem.First})
	}
	if most <= 0 {
		log.Chunks, log.Next = nil, log.Offset
	}
	return log, err
}

// FollowLog calls fn with a task's output from a byte offset, and with new output as it arrives,
// until the task has ended and all of its output was passed. Every byte is passed exactly once,
// even if connections are cut or the server restarts; see Config.Outage. Output that was rotated
// away is skipped; the offset of the next chunk shows that. A negative offset counts from
// the end.
//
// It returns nil, fn's error, the cause of ctx, the server's error, or Unavailable.
func (e *Engine) FollowLog(ctx context.Context, id perdure.TaskID, offset int64, fn func(engine.Chunk) error) error {
	r := &logReader{what: "follow the log of " + string(id), next: offset, fn: fn}
	for ends := 1; ; ends++ {
		from := r.next
		err := e.stream(ctx, func() request {
			return request{
				what: r.what, path: taskPath(id) + "/log", query: url.Values{
					"offset": {strconv.FormatInt(r.next, 10)}, "follow": {"true"},
				},
			}
		}, r.handleFrame)
		if problem := (*Problem)(nil); errors.As(err, &problem) && problem.First != nil && *problem.First > r.next {
			r.next = *problem.First
			continue
		}
		if !errors.Is(err, errLogEnd) {
			return err
		}
		end, whole, err := e.logEnd(ctx, id, r.next)
		if whole || err != nil {
			return err
		}
		if r.next != from {
			ends = 0
		}
		if ends >= maxGaps {
			return fmt.Errorf("%s: the server ended it at %d, but it continues to %d", r.what, r.next, end)
		}
	}
}

// errLogEnd reports that the server has sent the complete log.
var errLogEnd = errors.New("the log has ended")

// logEnd returns the end of a log, and whether a reader at next has all of it. It checks, because a
// server that shuts down ends its streams too.
func (e *Engine) logEnd(ctx context.Context, id perdure.TaskID, next int64) (end int64, whole bool, err error) {
	task, err := e.Tasks().Wait(ctx, id)
	if err != nil {
		return 0, false, err
	}
	log, err := e.Tasks().Log(ctx, id, next, 0)
	if gone := (*perdure.LogRotated)(nil); errors.As(err, &gone) {
		return gone.First, false, nil // the last output was rotated away in the meantime
	}
	return log.End, task.State.Terminal() && log.End <= max(next, 0), err
}

// logReader is a position in a log.
type logReader struct {
	what string
	next int64 // the offset of the next byte; negative: from the end, until the first byte arrives
	gaps int   // consecutive gaps at this position
	fn   func(engine.Chunk) error
}

// skip continues after output that was rotated away.
func (r *logReader) skip(data []byte) error {
	var gap struct {
		First int64 `json:"first_offset"`
	}
	if err := perdure.DecodeKnownJSON(data, &gap); err != nil {
		return fmt.Errorf("%s: at %d: %w", r.what, r.next, err)
	}
	r.next, r.gaps = max(r.next, gap.First), 0
	return nil
}

// handleFrame passes on the new part of a chunk.
func (r *logReader) handleFrame(got sse.Event) (cut bool, err error) {
	switch got.Name {
	case "end":
		return false, errLogEnd
	case "slow":
		return true, nil
	case "gap":
		return false, r.skip(got.Data)
	case "log":
	default:
		return false, nil
	}
	var chunk engine.Chunk
	if err := perdure.DecodeKnownJSON(got.Data, &chunk); err != nil {
		return false, fmt.Errorf("%s: at %d: %w", r.what, r.next, err)
	}
	end := chunk.Offset + int64(len(chunk.Bytes))
	if r.next < 0 {
		r.next = chunk.Offset
	}
	switch {
	case chunk.Offset < 0 || got.HasID && got.ID != strconv.FormatInt(end, 10):
		return false, fmt.Errorf("%s: at %d: the server sent a chunk from %d to %d with the id %q",
			r.what, r.next, chunk.Offset, end, got.ID)
	case end <= r.next:
		return false, nil
	case chunk.Offset > r.next:
		if r.gaps++; r.gaps >= maxGaps {
			return false, fmt.Errorf("%s: the server skipped the output between %d and %d",
				r.what, r.next, chunk.Offset)
		}
		return true, nil
	}
	chunk.Bytes = chunk.Bytes[r.next-chunk.Offset:]
	chunk.Offset = r.next
	if err := r.fn(chunk); err != nil {
		return false, err
	}
	r.next, r.gaps = end, 0
	return false, nil
}
