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
	logPage = 64 << 10    // bytes of a log that are read at once, and the limit when none is asked for
	logLook = time.Second // how often a log is looked at without a sign of news
)

// logQuery is what a log is asked for with.
type logQuery struct {
	OfTask
	Offset string `query:"offset" doc:"The byte of the whole log to begin with; a negative number counts from the end."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1048576" doc:"How many bytes at most, when it does not follow; 65536 when it is not said."`
	Stream string `query:"stream" enum:"all,out,err" doc:"Only this stream; all when it is not said."`
	Follow bool   `query:"follow" doc:"Bytes only: go on until the task has ended. A stream of events always does."`
	LastID string `header:"Last-Event-ID" doc:"Streams only: as offset, which it overrules."`
	Accept string `header:"Accept" hidden:"true"`
}

// takes reports whether a chunk is of a stream that was asked for.
func (q *logQuery) takes(c engine.Chunk) bool {
	return q.Stream == "" || q.Stream == "all" || c.Stream == q.Stream || c.Stream == "std"+q.Stream
}

// only returns a piece of the log with the chunks that were asked for. Its offsets stay those of the whole log.
func (q *logQuery) only(log engine.Log) engine.Log {
	log.Chunks = slices.DeleteFunc(log.Chunks, func(c engine.Chunk) bool { return !q.takes(c) })
	if log.Chunks == nil {
		log.Chunks = []engine.Chunk{} // [] on the wire
	}
	return log
}

func (a *API) taskLogOperations() {
	bytes := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
	events := &huma.MediaType{Schema: &huma.Schema{
		Type: huma.TypeString, Description: "Server-Sent Events: log with a Chunk as data and the offset after it as id; gap with the first_offset at which it goes on, where something was rotated away; end with the offset as id when the task has ended and all was sent; 204 to who comes again after that.",
	}}
	read(a, operation{
		id: "get-task-log", path: "/v1/tasks/{id}/log", policy: reads, summary: "Read or follow the output of a task", errors: []int{http.StatusNotFound, http.StatusGone},
		forms: map[string]*huma.MediaType{formBytes: bytes, formJSON: {Schema: schema[engine.Log](a)}, formEvents: events},
	}, a.taskLog)
	schema[engine.Chunk](a)
}

func (a *API) taskLog(ctx context.Context, in *logQuery) (*streamed, error) {
	form := negotiate(in.Accept, formBytes, formJSON, formEvents)
	field, text := "query.offset", in.Offset
	if form == formEvents && in.LastID != "" {
		field, text = "header.Last-Event-ID", in.LastID
	}
	offset, err := strconv.ParseInt(orDefault(text, "0"), 10, 64)
	if err != nil {
		return nil, invalid(field, "a number of bytes")
	}
	if form == "" {
		return nil, notAcceptable(formBytes, formJSON, formEvents)
	}
	limit := orDefault(in.Limit, logPage)
	if form == formEvents || in.Follow {
		limit = logPage
	}
	log, err := a.cfg.Engine.TaskLog(ctx, in.ID, offset, limit) // a place that is rotated away is 410
	if err != nil {
		return nil, err
	}
	task, err := a.cfg.Engine.Task(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	place := logPlace{in: in, task: task, offset: log.Offset}
	if form == formEvents && in.LastID != "" && task.State.Terminal() {
		if more, err := a.logGoesOn(ctx, place); err != nil || !more {
			return &streamed{Body: func(c huma.Context) { c.SetStatus(http.StatusNoContent) }}, err
		}
	}
	switch {
	case form == formJSON:
		return &streamed{Body: func(c huma.Context) {
			c.SetHeader("Content-Type", formJSON)
			c.SetStatus(http.StatusOK)
			_ = writeJSON(c.BodyWriter(), in.only(log)) // a client that is gone needs no answer
		}}, nil
	case form == formEvents:
		return a.goesOn(ctx, formEvents, func(s *stream) error { return a.logEvents(ctx, s, place) }), nil
	case in.Follow:
		bytes := a.goesOn(ctx, formBytes, func(s *stream) error { return a.logBytes(ctx, s, place) })
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
		for _, chunk := range in.only(log).Chunks {
			_, _ = c.BodyWriter().Write(chunk.Bytes) // a client that is gone needs no answer
		}
	}}, nil
}

// errMore says that there is more of a log.
var errMore = errors.New("there is more of the log")

// logGoesOn reports whether there is anything to show after a place in the log of a task that has ended. An EventSource that
// comes again and is told that there is not stays away (H8).
func (a *API) logGoesOn(ctx context.Context, at logPlace) (bool, error) {
	at.gap = func(int64) error { return errMore }
	_, err := a.showLog(ctx, at, func(engine.Chunk) error { return errMore })
	if errors.Is(err, errMore) {
		return true, nil
	}
	return false, err
}

// logPlace is where somebody who follows a log stands.
type logPlace struct {
	in     *logQuery
	task   perdure.Task
	offset int64
	gap    func(first int64) error // is told that the log goes on there
}

// logEvents follows a log as events. The place after a chunk is its id, so a cut stream goes on with no byte lost
// and none twice.
func (a *API) logEvents(ctx context.Context, s *stream, at logPlace) error {
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
		err = s.send(strconv.FormatInt(at.offset, 10), "end", []byte("{}")) // also who was shown nothing comes again with a place
	}
	return err
}

// logBytes follows a log as it is.
func (a *API) logBytes(ctx context.Context, s *stream, at logPlace) error {
	err := s.out.Flush()
	if err == nil {
		at.gap = func(int64) error { return nil } // bytes have no words for it
		_, err = a.followLog(ctx, at, nil, func(chunk engine.Chunk) error {
			if err := s.part(string(chunk.Bytes)); err != nil {
				return err
			}
			return s.out.Flush()
		})
	}
	if err != nil {
		a.streamEnded(ctx, err)
		panic(http.ErrAbortHandler) // the answer is cut, so that nobody takes it for whole
	}
	return nil
}

// followLog shows a log from a place on, until the task has ended and all of it was shown, or the server drains. It returns
// the place that it came to.
func (a *API) followLog(ctx context.Context, at logPlace, pinged *stream, show func(engine.Chunk) error) (int64, error) {
	news, stop := a.news(ctx, at.task)
	defer stop()
	ping, look := time.NewTicker(a.cfg.Ping), time.NewTicker(logLook)
	defer ping.Stop()
	defer look.Stop()
	for {
		task, err := a.cfg.Engine.Task(ctx, at.task.ID) // before the log, so that an ended task has all of its log
		if err != nil {
			return at.offset, err
		}
		if at.offset, err = a.showLog(ctx, at, show); err != nil || task.State.Terminal() {
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

// showLog shows what is there and returns the offset of what comes next.
func (a *API) showLog(ctx context.Context, at logPlace, show func(engine.Chunk) error) (int64, error) {
	for {
		log, err := a.cfg.Engine.TaskLog(ctx, at.task.ID, at.offset, logPage)
		var gone *perdure.Rotated
		if errors.As(err, &gone) { // who follows goes on behind it
			if at.offset, err = gone.First, at.gap(gone.First); err == nil {
				continue
			}
		}
		if err != nil {
			return at.offset, err
		}
		for _, chunk := range log.Chunks {
			if at.in.takes(chunk) {
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

// news signals that a task's session tells something, which may be output. It is only a hint: who Waits for it also
// looks now and then.
func (a *API) news(ctx context.Context, task perdure.Task) (signal <-chan struct{}, stop func()) {
	news := make(chan struct{}, 1) // capacity 1: one signal to look again stands for many
	session, err := a.cfg.Engine.Session(ctx, task.Session)
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
