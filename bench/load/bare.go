package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/egress"
)

// bareFlag makes this program the bare server.
const bareFlag = "-bare"

// recordedEvent is an event of a turn: its time after the first one, and the length of its frame.
type recordedEvent struct {
	After time.Duration `json:"after"`
	Bytes int           `json:"bytes"`
}

// barePlan configures the bare server.
type barePlan struct {
	Turn     []recordedEvent `json:"turn"`
	Sessions int             `json:"sessions"`
	Every    time.Duration   `json:"every"`
}

// bareRun is one measurement of the bare server.
type bareRun struct {
	options
	dir      string
	turn     []recordedEvent
	progress io.Writer
}

// recorded returns the last turn of a session, which the bare server sends again.
func (l *load) recorded(ctx context.Context) ([]recordedEvent, error) {
	id := l.sessions[1]
	now, err := l.eng.Sessions().Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := l.turn(ctx, id, "go"); err != nil {
		return nil, err
	}
	events, err := l.eng.Events(ctx, id, now.LastSeq, 0)
	if err != nil {
		return nil, err
	}
	var turn []recordedEvent
	for _, e := range events {
		text, err := perdure.EncodeEvent(e)
		if err != nil {
			return nil, err
		}
		turn = append(turn, recordedEvent{e.At.Sub(events[0].At), len(text)})
	}
	return turn, nil
}

// bare measures the same number of reading clients with a server of net/http that sends the same
// turns and does nothing else.
func bare(ctx context.Context, b bareRun, f *figures) (err error) {
	binary := filepath.Join(b.dir, "load")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/perdure/perdure/bench/load")
	build.Env, build.Stderr = append(os.Environ(), "CGO_ENABLED=0"), b.progress
	if err := build.Run(); err != nil {
		return fmt.Errorf("build the bare server: %w", err)
	}
	s, err := launch(exec.CommandContext(ctx, binary, bareFlag), func(in io.Writer) error {
		return json.NewEncoder(in).Encode(barePlan{Turn: b.turn, Sessions: sessionCount, Every: turnEvery})
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	web, err := egress.ForURL(s.url)
	if err != nil {
		return err
	}
	defer web.CloseIdleConnections()
	following, stop := context.WithCancel(ctx)
	defer stop()
	var group, connected sync.WaitGroup
	readers := make([]*reader, b.clients-b.stalled-b.slow)
	faults := make([]error, len(readers))
	connected.Add(len(readers))
	for i := range readers {
		readers[i] = &reader{session: perdure.SessionID(fmt.Sprint(i % sessionCount))}
		arrived := sync.OnceFunc(connected.Done)
		group.Go(func() {
			defer arrived()
			faults[i] = readers[i].follow(following, s, web, arrived)
		})
	}
	connected.Wait()
	begin, err := s.events(ctx, web, "begin", 0)
	if err == nil {
		err = begin.Body.Close()
	}
	select {
	case <-time.After(b.reference):
	case <-ctx.Done():
	}
	stop()
	group.Wait()
	var all []time.Duration
	for _, r := range readers {
		all = append(all, r.lags...)
	}
	f.BareLagP50, f.BareLagP99 = micros(all, 0.5), micros(all, 0.99)
	if f.BareLagP99 > 0 {
		f.LagP99Ratio = f.LagP99 / f.BareLagP99
	}
	return errors.Join(append(faults, err)...)
}

// bareTopic contains the events for the clients of one session of the bare server.
type bareTopic struct {
	mu     sync.Mutex
	events [][]byte      // guarded by mu
	grown  chan struct{} // guarded by mu; closed and replaced with each new event
}

// serveBare is the bare server: it reads its plan, prints its address, and sends until ctx ends.
func serveBare(ctx context.Context, in io.Reader, out io.Writer) error {
	var plan barePlan
	text, err := io.ReadAll(in)
	if err == nil {
		err = perdure.DecodeJSON(text, &plan)
	}
	if err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	topics := map[string]*bareTopic{}
	for i := range plan.Sessions {
		topics[fmt.Sprint(i)] = &bareTopic{grown: make(chan struct{})}
	}
	begin := make(chan struct{})
	begun := sync.OnceFunc(func() { close(begin) })
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/sessions/{id}/events", func(w http.ResponseWriter, r *http.Request) {
		t := topics[r.PathValue("id")]
		if t == nil {
			begun()
			return
		}
		t.follow(w, r)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "http://%s\n", listener.Addr()); err != nil {
		return err
	}
	server := &http.Server{Handler: mux}
	var group sync.WaitGroup
	for _, t := range topics {
		group.Go(func() { t.turns(ctx, plan, begin) })
	}
	group.Go(func() {
		<-ctx.Done()
		_ = server.Close()
	})
	err = server.Serve(listener)
	group.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// turns adds the events of the plan, turn by turn.
func (t *bareTopic) turns(ctx context.Context, plan barePlan, begin <-chan struct{}) {
	select {
	case <-begin:
	case <-ctx.Done():
		return
	}
	tick := time.NewTicker(plan.Every)
	defer tick.Stop()
	for seq := 1; ; {
		began := time.Now()
		for _, e := range plan.Turn {
			pause := time.NewTimer(e.After - time.Since(began))
			select {
			case <-pause.C:
			case <-ctx.Done():
				return
			}
			head := fmt.Sprintf(`{"v":1,"seq":%d,"at":%q,"data":"`, seq, time.Now().Format(time.RFC3339Nano))
			t.add([]byte(fmt.Sprintf("id: %d\nevent: bare\ndata: %s%s\"}\n\n", seq, head,
				strings.Repeat("a", max(0, e.Bytes-len(head))))))
			seq++
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (t *bareTopic) add(frame []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, frame)
	close(t.grown)
	t.grown = make(chan struct{})
}

// follow sends existing and new events.
func (t *bareTopic) follow(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	for sent := 0; ; {
		if err := control.Flush(); err != nil {
			return
		}
		t.mu.Lock()
		news, grown := t.events[sent:], t.grown
		t.mu.Unlock()
		for _, frame := range news {
			if _, err := w.Write(frame); err != nil {
				return
			}
		}
		if sent += len(news); len(news) > 0 {
			continue
		}
		select {
		case <-grown:
		case <-r.Context().Done():
			return
		}
	}
}
