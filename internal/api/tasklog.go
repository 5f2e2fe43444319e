package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

const (
	logPage = 64 << 10    // bytes of a log read at once, and the default limit
	logLook = time.Second // interval at which a log is read even without a signal
)

// logQuery holds the parameters of a request for a log.
type logQuery struct {
	OfTask
	Offset string `query:"offset" doc:"The offset in bytes to start from, in the whole log; a negative number counts from the end."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1048576" doc:"The maximum number of bytes, unless follow is set; default 65536."`
	Stream string `query:"stream" enum:"all,out,err" doc:"Only this stream; default all."`
	Follow bool   `query:"follow" doc:"Bytes only: continue until the task has ended. A stream of events always does."`
	LastID string `header:"Last-Event-ID" doc:"Streams only: like offset, over which it takes precedence."`
	Accept string `header:"Accept" hidden:"true"`
}

// accepts reports whether the query selects the stream of a chunk.
func (q *logQuery) accepts(c engine.Chunk) bool {
	return q.Stream == "" || q.Stream == "all" || c.Stream == q.Stream || c.Stream == "std"+q.Stream
}

// filterLog filters the chunks of log. Offsets remain those of the whole log.
func (q *logQuery) filterLog(log engine.Log) engine.Log {
	log.Chunks = slices.DeleteFunc(log.Chunks, func(c engine.Chunk) bool { return !q.accepts(c) })
	if log.Chunks == nil {
		log.Chunks = []engine.Chunk{} // encoded as []
	}
	return log
}

func (a taskLogHandlers) register() {
	bytes := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
	events := &huma.MediaType{Schema: &huma.Schema{
		Type: huma.TypeString, Description: "Server-Sent Events: log carries a Chunk as data and the offset after it as id; gap carries the first_offset from which the log continues after a part that was rotated away; end carries the final offset as id when the task has ended and everything was sent. A client that reconnects after end gets 204.",
	}}
	read(a.API, operation{
		id: "get-task-log", path: "/v1/tasks/{id}/log", policy: reads, summary: "Read or follow the output of a task", errors: []int{http.StatusNotFound, http.StatusGone},
		forms: map[string]*huma.MediaType{formBytes: bytes, formJSON: {Schema: schema[engine.Log](a.API)}, formEvents: events},
	}, a.taskLog)
	schema[engine.Chunk](a.API)
}

func (a taskLogHandlers) taskLog(ctx context.Context, in *logQuery) (*streamed, error) {
	form := negotiate(in.Accept, formBytes, formJSON, formEvents)
	field, text := "query.offset", in.Offset
	if form == formEvents && in.LastID != "" {
		field, text = "header.Last-Event-ID", in.LastID
	}
	offset, err := strconv.ParseInt(orDefault(text, "0"), 10, 64)
	if err != nil {
		return nil, invalid(field, "must be a number of bytes")
	}
	if form == "" {
		return nil, notAcceptable(formBytes, formJSON, formEvents)
	}
	limit := orDefault(in.Limit, logPage)
	if form == formEvents || in.Follow {
		limit = logPage
	}
	log, err := a.cfg.Engine.Tasks().Log(ctx, in.ID, offset, limit) // 410 if the offset was rotated away
	if err != nil {
		return nil, err
	}
	task, err := a.cfg.Engine.Tasks().Get(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	place := logPosition{query: in, task: task, offset: log.Offset}
	if form == formEvents && in.LastID != "" && task.State.Terminal() {
		if more, err := a.logHasMore(ctx, place); err != nil || !more {
			return &streamed{Body: func(c huma.Context) { c.SetStatus(http.StatusNoContent) }}, err
		}
	}
	switch {
	case form == formJSON:
		return &streamed{Body: func(c huma.Context) {
			c.SetHeader("Content-Type", formJSON)
			c.SetStatus(http.StatusOK)
			_ = writeJSON(c.BodyWriter(), in.filterLog(log)) // the client may be gone
		}}, nil
	case form == formEvents:
		return a.longRunning(ctx, formEvents, func(s *stream) error { return a.logEvents(ctx, s, place) }), nil
	case in.Follow:
		bytes := a.longRunning(ctx, formBytes, func(s *stream) error { return a.logBytes(ctx, s, place) })
		return &streamed{Body: func(c huma.Context) {
			c.SetHeader("Perdure-Log-Offset", strconv.FormatInt(place.offset, 10))
			bytes.Body(c)
		}}, nil
	}
	return &streamed{Body: func(c huma.Context) {
		c.SetHeader("Perdure-Log-Offset", strconv.FormatInt(log.Offset, 10))
		c.SetHeader("Perdure-Log-Next", strconv.FormatInt(log.Next, 10))
		c.SetHeader("Perdure-Log-End", strconv.FormatInt(log.End, 10))
		c.SetHeader("Content-Type", formBytes)
		c.SetStatus(http.StatusOK)
		for _, chunk := range in.filterLog(log).Chunks {
			_, _ = c.BodyWriter().Write(chunk.Bytes) // the client may be gone
		}
	}}, nil
}

// errPageFull reports that a log has more to show.
var errPageFull = errors.New("there is more of the log")

// logHasMore reports whether the log of an ended task has anything to show after a position. If
// not, the response is 204, which keeps an EventSource from reconnecting (H8).
func (a taskLogHandlers) logHasMore(ctx context.Context, at logPosition) (bool, error) {
	at.gap = func(int64) error { return errPageFull }
	_, err := a.writeLog(ctx, at, func(engine.Chunk) error { return errPageFull })
	if errors.Is(err, errPageFull) {
		return true, nil
	}
	return false, err
}

// logPosition is the position of a follower in a log.
type logPosition struct {
	query  *logQuery
	task   perdure.Task
	offset int64
	gap    func(first int64) error // called when a part was rotated away; the log continues at first
}

// logEvents follows a log as events. The id of an event is the offset after its chunk, so a client
// that reconnects neither misses a byte nor gets one twice.
func (a taskLogHandlers) logEvents(ctx context.Context, s *stream, at logPosition) error {
	err := s.say("retry: 1000")
	if err == nil {
		at.gap = func(first int64) error {
			return s.send(strconv.FormatInt(first, 10), "gap", fmt.Appendf(nil, `{"first_offset":%d}`, first))
		}
		at.offset, err = a.followLog(ctx, at, s, func(chunk engine.Chunk) error {
			data, err := json.Marshal(chunk)
			if err != nil {
				return err
			}
			return s.send(strconv.FormatInt(chunk.Offset+int64(len(chunk.Bytes)), 10), "log", data)
		})
	}
	if err == nil {
		// So that a client that received no chunk also reconnects with an offset.
		err = s.send(strconv.FormatInt(at.offset, 10), "end", []byte("{}"))
	}
	return err
}

// logBytes follows a log as raw bytes.
func (a taskLogHandlers) logBytes(ctx context.Context, s *stream, at logPosition) error {
	err := s.out.Flush()
	if err == nil {
		at.gap = func(int64) error { return nil } // raw bytes cannot express a gap
		_, err = a.followLog(ctx, at, nil, func(chunk engine.Chunk) error {
			if err := s.part(string(chunk.Bytes)); err != nil {
				return err
			}
			return s.out.Flush()
		})
	}
	if err != nil {
		a.streamEnded(ctx, err)
		panic(http.ErrAbortHandler) // cut the response, so that it is not mistaken for a complete one
	}
	return nil
}

// followLog shows a log from a position on, until the task has ended and all of the log was shown,
// or the server drains. It returns the position reached.
func (a taskLogHandlers) followLog(ctx context.Context, at logPosition, pinged *stream, show func(engine.Chunk) error) (int64, error) {
	news, stop := a.sessionSignal(ctx, at.task)
	defer stop()
	ping, look := time.NewTicker(a.cfg.Timing.Ping), time.NewTicker(logLook)
	defer ping.Stop()
	defer look.Stop()
	for {
		// Read before the log: if the task has ended, the log is complete.
		task, err := a.cfg.Engine.Tasks().Get(ctx, at.task.ID)
		if err != nil {
			return at.offset, err
		}
		if at.offset, err = a.writeLog(ctx, at, show); err != nil || task.State.Terminal() {
			return at.offset, err
		}
		select {
		case <-news:
		case <-look.C:
		case <-ping.C:
			if pinged != nil {
				if err := pinged.say(": ping"); err != nil {
					return at.offset, err
				}
			}
		case <-a.draining:
			return at.offset, nil
		case <-ctx.Done():
			return at.offset, ctx.Err()
		}
	}
}

// writeLog shows the log up to its current end and returns the offset after it.
func (a taskLogHandlers) writeLog(ctx context.Context, at logPosition, show func(engine.Chunk) error) (int64, error) {
	for {
		log, err := a.cfg.Engine.Tasks().Log(ctx, at.task.ID, at.offset, logPage)
		var gone *perdure.LogRotated
		if errors.As(err, &gone) { // a follower continues after the gap
			if at.offset, err = gone.First, at.gap(gone.First); err == nil {
				continue
			}
		}
		if err != nil {
			return at.offset, err
		}
		for _, chunk := range log.Chunks {
			if at.query.accepts(chunk) {
				if err := show(chunk); err != nil {
					return at.offset, err
				}
			}
		}
		if log.Next <= at.offset || len(log.Chunks) == 0 {
			return at.offset, nil
		}
		at.offset = log.Next
	}
}

// sessionSignal signals that there is something new in the session of a task, which may be output.
// It is only a hint: the caller must also poll.
func (a *API) sessionSignal(ctx context.Context, task perdure.Task) (signal <-chan struct{}, stop func()) {
	news := make(chan struct{}, 1) // capacity 1: one pending signal to look again stands for many
	session, err := a.cfg.Engine.Sessions().Get(ctx, task.Session)
	if err != nil {
		return news, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = a.cfg.Engine.Follow(ctx, task.Session, session.LastSeq, func(engine.Frame) error {
			select {
			case news <- struct{}{}:
			default:
			}
			return nil
		})
	}()
	return news, func() { cancel(); <-gone }
}
