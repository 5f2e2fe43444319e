package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/api"
)

type eventPage struct {
	Items   []perdure.Event `json:"items"`
	LastSeq int64           `json:"last_seq"`
	ReadTo  int64           `json:"read_to"`
}

// sse is one frame of a stream; comment is set for a line that is no event.
type sse struct{ id, name, data, comment string }

// streamed is an open stream.
type streamed struct {
	t    *testing.T
	res  *http.Response
	in   *bufio.Reader
	stop context.CancelFunc
}

// open begins a stream.
func (r *rig) open(path string, header map[string]string) *streamed {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	if header == nil {
		header = map[string]string{}
	}
	header["Accept"] = "text/event-stream"
	res, err := r.server.Client().Do(r.request(ctx, ask{method: http.MethodGet, path: path, header: header}))
	if err != nil {
		r.t.Fatal(err)
	}
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		r.t.Fatalf("got %d %v", res.StatusCode, res.Header)
	}
	s := &streamed{t: r.t, res: res, in: bufio.NewReader(res.Body), stop: cancel}
	r.t.Cleanup(s.close)
	return s
}

func (s *streamed) close() {
	s.stop()
	s.res.Body.Close()
}

// next reads one frame; ok is false at the end of the stream.
func (s *streamed) next() (f sse, ok bool) {
	s.t.Helper()
	for {
		line, err := s.in.ReadString('\n')
		if err == io.EOF {
			return f, false
		}
		if err != nil {
			s.t.Fatalf("the stream broke: %v", err)
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "" && f != sse{}:
			return f, true
		case name == "id":
			f.id = value
		case name == "event":
			f.name = value
		case name == "data":
			f.data += value
		case line != "":
			f.comment = line
		}
	}
}

// event reads on to the next frame of the journal.
func (s *streamed) event() (sse, perdure.Event) {
	s.t.Helper()
	for {
		f, ok := s.next()
		if !ok {
			s.t.Fatal("the stream ended")
		}
		if f.id == "" || f.name == "snapshot" {
			continue
		}
		e, err := perdure.DecodeEvent([]byte(f.data))
		if err != nil {
			s.t.Fatal(err)
		}
		return f, e
	}
}

// journal reads the events of a session from its store, as they are served.
func (r *rig) journal(session string) []string {
	r.t.Helper()
	events, err := r.eng.Events(r.t.Context(), perdure.SessionID(strings.TrimPrefix(session, "/v1/sessions/")), 0, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	var all []string
	for _, e := range events {
		text, err := perdure.EncodeEvent(e)
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, string(text))
	}
	return all
}

func TestEventPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.talk("echo", "hi", "echo", "hi", "hi", "hi")
	want1 := r.journal(s)

	var got []string
	for after := int64(0); ; {
		page := want[eventPage](r, 200, get(fmt.Sprintf("%s/events?after=%d&limit=7", s, after)))
		if page.LastSeq != int64(len(want1)) || len(page.Items) > 7 {
			t.Fatalf("got %d items, last_seq %d", len(page.Items), page.LastSeq)
		}
		for _, e := range page.Items {
			text, err := perdure.EncodeEvent(e)
			if err != nil {
				t.Fatal(err)
			}
			got, after = append(got, string(text)), e.Seq
		}
		if after == page.LastSeq {
			break
		}
	}
	if strings.Join(got, "\n") != strings.Join(want1, "\n") {
		t.Error("the pages are not the journal")
	}
	if n := len(want[eventPage](r, 200, get(s+"/events")).Items); n != min(50, len(want1)) {
		t.Errorf("got %d events by default", n)
	}
	if page := want[eventPage](r, 200, get(s+"/events?types=turn.*,message.received&limit=3")); len(page.Items) != 3 ||
		page.Items[0].Type() != "message.received" || page.Items[1].Type() != "turn.started" || page.Items[2].Type() != "turn.completed" {
		t.Errorf("got %s", raw(page))
	}
	for _, query := range []string{"after=-1", "after=x", "limit=0", "limit=201", "types=none", "types=turn", "types=*", "types=.*", "types=a.*",
		"types=" + strings.Repeat("turn.started,", 40) + "turn.started"} {
		r.refusal(r.do(get(s+"/events?"+query)), 400, "invalid")
	}
	r.refusal(r.do(ask{method: "GET", path: s + "/events", header: map[string]string{"Accept": "text/html"}}), 406, "not_acceptable")
}

// TestEventTypes compares the types that a filter takes with those that the root decodes.
func TestEventTypes(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.session()
	source, err := os.ReadFile("../../event.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := regexp.MustCompile(`case "([a-z_.]+)":`).FindAllSubmatch(source, -1)
	if len(kinds) < 30 {
		t.Fatalf("found %d types", len(kinds))
	}
	for _, kind := range kinds {
		if got := r.do(get(s + "/events?types=" + string(kind[1]))); got.status != 200 {
			t.Errorf("%s: got %d %s", kind[1], got.status, got.body)
		}
	}
}

// TestR20Resume cuts the connection after every event and resumes from it.
func TestR20Resume(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.talk("echo", "spawn stream")
	journal := r.journal(s)

	for _, how := range []string{"Last-Event-ID", "after"} {
		var got []string
		for last := "0"; last != strconv.Itoa(len(journal)); {
			path, header := s+"/events?after="+last, map[string]string{}
			if how == "Last-Event-ID" {
				// a browser reconnects with its first URL
				path, header = s+"/events?after=0", map[string]string{"Last-Event-ID": last}
			}
			stream := r.open(path, header)
			f, e := stream.event()
			if f.name != string(e.Type()) || f.id != strconv.FormatInt(e.Seq, 10) {
				t.Fatalf("got %+v", f)
			}
			got, last = append(got, f.data), f.id
			stream.close()
		}
		if strings.Join(got, "\n") != strings.Join(withoutWorkers(t, journal), "\n") {
			t.Errorf("by %s the stream is not the journal", how)
		}
	}
	stream := map[string]string{"Accept": "text/event-stream"}
	r.refusal(r.do(ask{method: "GET", path: fmt.Sprintf("%s/events?after=%d", s, len(journal)+1), header: stream}), 400, "invalid")
	stream["Last-Event-ID"] = "x"
	r.refusal(r.do(ask{method: "GET", path: s + "/events", header: stream}), 400, "invalid")
}

// withoutWorkers is a journal as it is served: the ids of workers are fences.
func withoutWorkers(t *testing.T, journal []string) []string {
	t.Helper()
	all := make([]string, len(journal))
	for i, text := range journal {
		all[i] = regexp.MustCompile(`,"worker_id":"worker_[0-9a-f]+"`).ReplaceAllString(text, "")
	}
	return all
}

func TestSnapshotThenDeltas(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.talk("echo")
	messages := want[taskInList[shownMessage]](r, 200, get(s+"/messages")).Items
	last := len(r.journal(s))

	stream := r.open(s+"/events", nil)
	if f, _ := stream.next(); f.comment != "retry: 1000" {
		t.Errorf("the first is %+v", f)
	}
	f, _ := stream.next()
	shot := read[struct {
		Session  engine.Session `json:"session"`
		Seq      int            `json:"seq"`
		Messages []shownMessage `json:"messages"`
	}](t, []byte(f.data))
	if f.name != "snapshot" || f.id != strconv.Itoa(last) || shot.Seq != last || int(shot.Session.LastSeq) != last || string(raw(shot.Messages)) != string(raw(messages)) {
		t.Fatalf("got %+v", f)
	}
	r.say(s, "charge")
	seq, delta, idle := last, false, false
	for !delta || !idle { // a live frame may come after the event that makes it old
		f, ok := stream.next()
		if !ok {
			t.Fatal("the stream ended")
		}
		if f.id == "" {
			delta = delta || f.name == "output.message.delta" && strings.Contains(f.data, `"delta":"done"`)
			continue
		}
		if f.name == "tool.started" {
			r.release() // the stream follows by now, so it sees live frames from here on
		}
		if seq++; f.id != strconv.Itoa(seq) {
			t.Fatalf("got id %s, want %d", f.id, seq)
		}
		idle = idle || f.name == "session.idled"
	}
}

func TestStreamFilter(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.talk("echo", "hi")
	stream := r.open(s+"/events?after=0&types=turn.*", nil)
	for _, kind := range []string{"turn.started", "turn.completed", "turn.started", "turn.completed"} {
		if f, _ := stream.event(); f.name != kind {
			t.Errorf("got %s, want %s", f.name, kind)
		}
	}
}

func TestPing(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *api.Config) { c.Timing.Ping = 20 * time.Millisecond })
	stream := r.open(r.session()+"/events", nil)
	for pings := 0; pings < 3; {
		f, ok := stream.next()
		if !ok {
			t.Fatal("the stream ended")
		}
		if f.comment == ": ping" {
			pings++
		}
	}
}

// TestDrain: open streams end with a reason, writes are refused, reads work, and the next server
// resumes.
func TestDrain(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.talk("hi")
	stream := r.open(s+"/events?after=0", nil)
	last := ""
	for range len(r.journal(s)) {
		f, _ := stream.event()
		last = f.id
	}
	waiting := make(chan reply, 1)
	r.say(s, "charge")
	r.entered("charge")
	go func() { waiting <- r.do(get(s + "?wait=30s")) }()

	for f := (sse{}); f.name != "tool.started"; {
		f, _ = stream.event()
		last = f.id
	}
	r.api.Drain()
	r.api.Drain()

	var names []string
	for {
		f, ok := stream.next()
		if !ok {
			break
		}
		names = append(names, f.name)
	}
	if len(names) == 0 || names[len(names)-1] != "end" {
		t.Errorf("got %v", names)
	}
	if got := <-waiting; got.status != 200 || got.header.Get("Perdure-Idle") != "false" {
		t.Errorf("a waiting client gets %d %v", got.status, got.header)
	}
	refused := r.do(post(s+"/messages", `{"content":[{"type":"text","text":"a"}]}`))
	if p := r.refusal(refused, 503, "draining"); !p.Retryable || refused.header.Get("Retry-After") != "1" {
		t.Errorf("got %+v %v", p, refused.header)
	}
	want[engine.Session](r, 200, get(s))

	r.restart()
	again := r.open(s+"/events", map[string]string{"Last-Event-ID": last})
	if f, _ := again.event(); f.id == last || f.id == "" {
		t.Errorf("continues with %q after %q", f.id, last)
	}
}

// toldTo sends the streams that were cut to a channel.
type toldTo struct {
	slog.Handler
	cut chan string
}

func (h toldTo) Enabled(context.Context, slog.Level) bool { return true }

func (h toldTo) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "stream cut" {
		h.cut <- r.Message
	}
	return nil
}
