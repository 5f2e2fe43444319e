package api_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/api"
)

// topical is a frame of a stream of several topics.
type topical struct {
	id, kind string
	topic    string
	data     json.RawMessage
}

// topic reads on to the next frame of a topic.
func (s *streamed) topic() topical {
	s.t.Helper()
	for {
		f, ok := s.next()
		if !ok {
			s.t.Fatal("the stream ended")
		}
		if f.comment != "" && f.name == "" {
			continue
		}
		got := read[struct {
			Topic string          `json:"topic"`
			Data  json.RawMessage `json:"data"`
		}](s.t, []byte(f.data))
		return topical{f.id, f.name, got.Topic, got.Data}
	}
}

func sessionName(path string) string { return strings.TrimPrefix(path, "/v1/sessions/") }

// quick looks at lists often.
func quick(c *api.Config) { c.Timing.Poll = 5 * time.Millisecond }

// TestTopics: each topic begins with a snapshot, then comes what happens in each of them.
func TestTopics(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick)
	a, b := r.talk("hi"), r.talk("echo")
	stream := r.open("/v1/events?topics="+sessionName(a)+","+sessionName(b)+",tasks,approvals", nil)

	seen := map[string]string{}
	for range 4 {
		f := stream.topic()
		if f.kind != "snapshot" || f.id == "" || seen[f.topic] != "" {
			t.Fatalf("got %+v", f)
		}
		seen[f.topic] = string(f.data)
	}
	if want := `{"items":[],"gone":[]}`; seen["tasks"] != want || seen["approvals"] != want {
		t.Errorf("got %v", seen)
	}
	if !strings.Contains(seen[sessionName(b)], `"messages":[{`) {
		t.Errorf("got %s", seen[sessionName(b)])
	}

	r.say(b, "pay")
	asked, idle := "", false
	for asked == "" || !idle {
		f := stream.topic()
		switch {
		case f.topic == "approvals" && f.kind == "changed":
			change := read[struct {
				Items []perdure.Approval
				Gone  []string
			}](t, []byte(strings.NewReplacer(`"items"`, `"Items"`, `"gone"`, `"Gone"`).Replace(string(f.data))))
			asked = string(change.Items[0].ID)
			if strings.Contains(string(f.data), "canary") {
				t.Errorf("a list shows %s", f.data)
			}
		case f.topic == sessionName(b) && f.kind == "approval.requested":
			idle = true
		}
	}
	want[perdure.Approval](r, 200, post("/v1/approvals/"+asked+"/deny", ""))
	for f := stream.topic(); f.topic != "approvals"; f = stream.topic() {
		if f.topic != sessionName(b) {
			t.Fatalf("got %+v", f)
		}
	}
	r.say(a, "hi")
	for f := stream.topic(); f.topic != sessionName(a); f = stream.topic() {
		if f.topic == "tasks" {
			t.Fatalf("got %+v", f)
		}
	}
}

// TestTopicOfSchedules (ST6): the list has each schedule as get-schedule shows it, its changes and
// its end.
func TestTopicOfSchedules(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick)
	stream := r.open("/v1/events?topics=schedules", nil)
	if f := stream.topic(); f.kind != "snapshot" || string(f.data) != `{"items":[],"gone":[]}` {
		t.Fatalf("got %s %s", f.kind, f.data)
	}
	type change struct {
		Items []json.RawMessage `json:"items"`
		Gone  []string          `json:"gone"`
	}
	path := r.hourly()
	steps := []ask{post(path+"/pause", `{"reason":"holidays"}`), post(path+"/resume", ""), post(path+"/trigger", "")}

	for i := 0; ; i++ {
		f := stream.topic()
		got := read[change](t, f.data)
		if f.topic != "schedules" || f.kind != "changed" || len(got.Items) != 1 {
			t.Fatalf("got %s %s %s", f.topic, f.kind, f.data)
		}
		if i == len(steps) {
			break
		}
		if shown := r.do(get(path)).body; strings.TrimSpace(string(shown)) != string(got.Items[0]) {
			t.Errorf("step %d: got %s, want %s", i, got.Items[0], shown)
		}
		if got := r.do(steps[i]); got.status >= 300 {
			t.Fatalf("%s: %d %s", steps[i].path, got.status, got.body)
		}
	}
	if got := r.do(ask{method: "DELETE", path: path}); got.status >= 300 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	for f := stream.topic(); ; f = stream.topic() { // a fire may be recorded in a second step
		if gone := read[change](t, f.data).Gone; len(gone) == 1 && strings.HasSuffix(path, gone[0]) {
			break
		}
	}
}

// TestTopicsResume cuts the connection after every frame and resumes from it, also across a restart
// of the server: every event of each session is delivered once and in order, and an unchanged list
// is not repeated.
func TestTopicsResume(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick)
	paths := []string{r.session(), r.session()}
	names := []string{sessionName(paths[0]), sessionName(paths[1])}
	url := "/v1/events?topics=" + names[0] + ",tasks," + names[1]
	last := ""
	for stream, begun := r.open(url, nil), 0; begun < 3; begun++ {
		last = stream.topic().id
	}
	start := []int{len(r.journal(paths[0])), len(r.journal(paths[1]))}
	for range 2 {
		for _, path := range paths {
			r.say(path, "echo")
			r.rest(path)
		}
	}

	want, got := map[string][]string{}, map[string][]string{}
	left := 0
	for i, path := range paths {
		want[names[i]] = withoutWorkers(t, r.journal(path)[start[i]:])
		left += len(want[names[i]])
	}
	for n := 0; left > 0; n++ {
		if n == 7 {
			r.restart()
		}
		header := map[string]string{"Last-Event-ID": last}
		path := url
		if n%2 == 1 {
			path, header = url+"&after="+last, map[string]string{}
		}
		stream := r.open(path, header)
		for range 1 + n%3 {
			if left == 0 {
				break
			}
			f := stream.topic()
			if !slices.Contains(names, f.topic) || f.id == "" || f.id == last {
				t.Fatalf("got %+v", f)
			}
			last, left = f.id, left-1
			got[f.topic] = append(got[f.topic], string(f.data))
		}
		stream.close()
	}
	for _, name := range names {
		if strings.Join(got[name], "\n") != strings.Join(want[name], "\n") {
			t.Errorf("%s: got %d events, want the %d of the journal", name, len(got[name]), len(want[name]))
		}
	}
}

// TestTopicsReset: a list that has changed while the client was away begins again, and is said to.
func TestTopicsReset(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick)
	s := r.session()
	stream := r.open("/v1/events?topics=tasks", nil)
	first := stream.topic()
	stream.close()
	r.say(s, "spawn hold")
	r.entered("hold")

	again := r.open("/v1/events?topics=tasks", map[string]string{"Last-Event-ID": first.id})
	f := again.topic()

	if f.kind != "reset" || !strings.Contains(string(f.data), `"tool":"hold"`) || !strings.HasSuffix(string(f.data), `"gone":[]}`) {
		t.Fatalf("got %+v", f)
	}
	r.release()
	for f.kind != "changed" || f.id != first.id { // the list will be as it was, and so will the position
		f = again.topic()
	}
	if strings.Contains(string(f.data), `"tool":"hold"`) {
		t.Errorf("got %+v", f)
	}
}

// TestTopicsFilter: ?types= is for the events of sessions.
func TestTopicsFilter(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick)
	s := r.session()
	stream := r.open("/v1/events?topics=sessions,"+sessionName(s)+"&types=turn.*", nil)
	stream.topic()
	stream.topic()
	r.say(s, "echo")
	for _, kind := range []string{"turn.started", "turn.completed"} {
		f := stream.topic()
		for f.topic == "sessions" {
			f = stream.topic()
		}
		if f.kind != kind {
			t.Errorf("got %+v, want %s", f, kind)
		}
	}
}

func TestTopicsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick)
	s := sessionName(r.session())
	foreign := string(perdure.DeriveID[perdure.SessionID](perdure.Secret{1}, time.Unix(1, 0), "none"))
	many := make([]string, 51)
	for i := range many {
		many[i] = fmt.Sprint("a", i)
	}
	stream := r.open("/v1/events?topics="+s, nil)
	position := stream.topic().id
	ask := func(path string, header map[string]string) reply {
		if header == nil {
			header = map[string]string{"Accept": "text/event-stream"}
		}
		return r.do(ask{method: "GET", path: path, header: header})
	}

	r.refusal(ask("/v1/events?topics=tasks,"+foreign, nil), 404, "not_found")
	for _, query := range []string{"", "?topics=", "?topics=,", "?topics=task", "?topics=" + s + "x", "?topics=" + strings.Join(many, ","),
		"?topics=tasks&types=none", "?topics=tasks&after=x", "?topics=tasks&after=" + position, "?topics=tasks&more=1"} {
		r.refusal(ask("/v1/events"+query, nil), 400, "invalid")
	}
	r.refusal(ask("/v1/events?topics=tasks", map[string]string{"Accept": "application/json"}), 406, "not_acceptable")
	r.refusal(ask("/v1/events?topics=tasks", map[string]string{"Authorization": "Bearer x"}), 401, "unauthorized")
	if got := r.do(get("/v1/events?topics=" + foreign)); got.status != 404 {
		t.Errorf("got %d", got.status)
	}
}

// TestTopicsBeginAtASeq: a client that has read the events of a session gets those after them, and
// no snapshot. Its position is one of the same topics without a seq.
func TestTopicsBeginAtASeq(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick)
	path := r.talk("hi")
	s := sessionName(path)
	last := r.rest(path).LastSeq

	stream := r.open(fmt.Sprintf("/v1/events?topics=%s@%d", s, last-2), nil)
	position := ""
	for seq := last - 1; seq <= last; seq++ {
		f := stream.topic()
		if got := read[perdure.Event](t, f.data).Seq; f.topic != s || got != seq {
			t.Fatalf("got %+v, want seq %d of %s", f, seq, s)
		}
		position = f.id
	}
	stream.close()

	r.say(path, "hi")
	for _, topics := range []string{s, fmt.Sprintf("%s@%d", s, last-2)} {
		f := r.open("/v1/events?topics="+topics+"&after="+position, nil).topic()
		if got := read[perdure.Event](t, f.data).Seq; got != last+1 {
			t.Errorf("%s: got %+v, want seq %d", topics, f, last+1)
		}
	}
	if f := r.open("/v1/events?topics="+s+"@0", nil).topic(); read[perdure.Event](t, f.data).Seq != 1 {
		t.Errorf("got %+v, want the first event", f)
	}
	if f := r.open("/v1/events?topics="+s+"@999999", nil).topic(); f.kind != "reset" {
		t.Errorf("a seq after the end: got %+v, want a reset", f)
	}
	for _, wrong := range []string{s + "@", s + "@x", s + "@-1", "tasks@1", s + "@1," + s, s + "@1," + s + "@2"} {
		r.refusal(r.do(ask{method: "GET", path: "/v1/events?topics=" + wrong, header: map[string]string{"Accept": "text/event-stream"}}), 400, "invalid")
	}
}
