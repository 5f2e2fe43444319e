package remote

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// logBytes is how much of a log is asked for at once.
const logBytes = 1 << 20

// TaskLog returns output from a byte offset on. A long piece is read in several.
func (e *Engine) TaskLog(ctx context.Context, id perdure.TaskID, offset int64, max int) (engine.Log, error) {
	log, err := e.logPiece(ctx, id, offset, min(max, logBytes))
	for err == nil && log.Next < log.End && log.Next-log.Offset < int64(max) {
		var more engine.Log
		more, err = e.logPiece(ctx, id, log.Next, int(min(int64(max)-(log.Next-log.Offset), logBytes)))
		if gone := (*perdure.Rotated)(nil); errors.As(err, &gone) {
			return log, nil // up to what was rotated away
		}
		if err == nil && more.Next <= log.Next {
			break // it has nothing more to give, whatever its end says
		}
		log.Next, log.End, log.Chunks = more.Next, more.End, append(log.Chunks, more.Chunks...)
	}
	return log, err
}

// logPiece is TaskLog for what one request asks for; with 0 bytes it only tells where the log ends.
func (e *Engine) logPiece(ctx context.Context, id perdure.TaskID, offset int64, most int) (log engine.Log, err error) {
	query := url.Values{"offset": {strconv.FormatInt(offset, 10)}, "limit": {strconv.Itoa(max(most, 1))}}
	_, err = e.call(ctx, request{what: "log of " + string(id), path: taskPath(id) + "/log", query: query}, &log)
	var problem *Problem
	if errors.As(err, &problem) && problem.First != nil {
		err = fmt.Errorf("log of %s: %w", id, &perdure.Rotated{Offset: offset, First: *problem.First})
	}
	if most <= 0 {
		log.Chunks, log.Next = nil, log.Offset
	}
	return log, err
}

// FollowLog calls fn with a task's output from a byte offset on, and with more as it comes, until the task has
// ended and all was given. No byte is given twice and none is left out, however often the connection is cut or
// the server restarts; see Config.Outage. What was rotated away is not given; the offset of the next chunk says so. A negative
// offset counts from the end.
//
// It ends with nil, fn's error, ctx's cause, the server's refusal, or Unavailable.
func (e *Engine) FollowLog(ctx context.Context, id perdure.TaskID, offset int64, fn func(engine.Chunk) error) error {
	r := &logReader{what: "follow the log of " + string(id), next: offset, fn: fn}
	for ends := 1; ; ends++ {
		from := r.next
		err := e.stream(ctx, func() request {
			return request{what: r.what, path: taskPath(id) + "/log", query: url.Values{"offset": {strconv.FormatInt(r.next, 10)}, "follow": {"true"}}}
		}, r.take)
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
			return fmt.Errorf("%s: the server ends it at %d, and it goes on to %d", r.what, r.next, end)
		}
	}
}

// errLogEnd is the server's word that all was sent.
var errLogEnd = errors.New("the log has ended")

// logEnd returns a log's end, and whether a reader at next has it all: a server that drains ends its streams too.
func (e *Engine) logEnd(ctx context.Context, id perdure.TaskID, next int64) (end int64, whole bool, err error) {
	task, err := e.WaitTask(ctx, id)
	if err != nil {
		return 0, false, err
	}
	log, err := e.TaskLog(ctx, id, next, 0)
	if gone := (*perdure.Rotated)(nil); errors.As(err, &gone) {
		return gone.First, false, nil // what it sent last was rotated away meanwhile
	}
	return log.End, task.State.Terminal() && log.End <= max(next, 0), err
}

// logReader is a position in a log.
type logReader struct {
	what string
	next int64 // offset of the next byte; negative: from the end, until the first one came
	gaps int   // in a row, at this position
	fn   func(engine.Chunk) error
}

// skip goes on behind what was rotated away.
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

// take hands on what is new of a chunk.
func (r *logReader) take(got frame) (cut bool, err error) {
	switch got.event {
	case "end":
		return false, errLogEnd
	case "slow":
		return true, nil
	case "gap":
		return false, r.skip(got.data)
	case "log":
	default:
		return false, nil
	}
	var chunk engine.Chunk
	if err := perdure.DecodeKnownJSON(got.data, &chunk); err != nil {
		return false, fmt.Errorf("%s: at %d: %w", r.what, r.next, err)
	}
	end := chunk.Offset + int64(len(chunk.Bytes))
	if r.next < 0 {
		r.next = chunk.Offset
	}
	switch {
	case chunk.Offset < 0 || got.hasID && got.id != strconv.FormatInt(end, 10):
		return false, fmt.Errorf("%s: at %d: the server gave a piece from %d to %d the position %q", r.what, r.next, chunk.Offset, end, got.id)
	case end <= r.next:
		return false, nil
	case chunk.Offset > r.next:
		if r.gaps++; r.gaps >= maxGaps {
			return false, fmt.Errorf("%s: the server left out what is between %d and %d", r.what, r.next, chunk.Offset)
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
