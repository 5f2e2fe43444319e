package api_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/store"
)

func TestTasks(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var made []string
	for range 5 {
		made = append(made, string(r.task(r.talk("spawn stream")).ID))
	}
	var seen []string
	for cursor := ""; ; {
		got := r.do(get("/v1/tasks?limit=2&state=succeeded&cursor=" + cursor))
		page := read[taskInList[perdure.Task]](t, got.body)
		if strings.Contains(string(got.body), "worker") {
			t.Errorf("a fence is shown: %s", got.body)
		}
		for _, task := range page.Items {
			seen = append(seen, string(task.ID))
		}
		if cursor = page.Next; cursor == "" {
			break
		}
		r.talk("spawn stream") // comes at the end
		made = append(made, "")
		if len(made) > 7 {
			break
		}
	}
	if len(seen) < 5 || strings.Join(seen[:5], " ") != strings.Join(made[:5], " ") {
		t.Errorf("got %v, want %v", seen, made)
	}
	if n := len(want[taskInList[perdure.Task]](r, 200, get("/v1/tasks?state=failed")).Items); n != 0 {
		t.Errorf("got %d failed tasks", n)
	}
	page := want[taskInList[perdure.Task]](r, 200, get("/v1/tasks?limit=1"))
	// a cursor of another filter
	r.refusal(r.do(get("/v1/tasks?limit=1&state=failed&cursor="+page.Next)), 400, "invalid")
	r.refusal(r.do(get("/v1/tasks?state=done")), 400, "invalid")
	for _, path := range []string{"", "?wait=1s", "/log"} {
		r.refusal(r.do(get("/v1/tasks/task_"+strings.Repeat("99", 16)+path)), 404, "not_found")
	}
	r.refusal(r.do(post("/v1/tasks/none/cancel", "")), 404, "not_found")
}

// TestTaskListRedacts: a list shows what a task was given without its secrets, and the task itself
// as it is (RD6).
func TestTaskListRedacts(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.task(r.talk("spawn secret")).ID

	items := want[taskInList[perdure.Task]](r, 200, get("/v1/tasks")).Items
	if len(items) != 1 || string(items[0].Spec.Arguments) != `{"text":"Authorization: <redacted>"}` {
		t.Errorf("the list shows %+v", items)
	}
	one := want[perdure.Task](r, 200, get("/v1/tasks/"+string(id)))
	if string(one.Spec.Arguments) != `{"text":"Authorization: Bearer canary"}` {
		t.Errorf("the task shows %s", one.Spec.Arguments)
	}
}

func TestTaskWaitAndCancel(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.session()
	r.say(s, "spawn hold")
	r.entered("hold")
	path := "/v1/tasks/" + string(r.task(s).ID)

	if task := want[perdure.Task](r, 200, get(path+"?wait=50ms")); task.State != perdure.TaskRunning || task.Worker != "" {
		t.Errorf("got %+v", task)
	}
	waiting := make(chan reply, 1)
	go func() { waiting <- r.do(get(path + "?wait=30s")) }()
	if receipt := want[perdure.CancelReceipt](r, 202, post(path+"/cancel", `{"reason":"enough"}`)); receipt.RequestedAt.IsZero() {
		t.Errorf("got %+v", receipt)
	}
	task := read[perdure.Task](t, (<-waiting).body)
	if task.State != perdure.TaskCanceled || task.CancelBy != "api" || task.CancelWhy != "enough" {
		t.Errorf("got %+v", task)
	}
	want[perdure.CancelReceipt](r, 202, post(path+"/cancel", ""))
	r.refusal(r.do(post(path+"/resolve", `{"outcome":"happened"}`)), 409, "conflict")
}

func TestTaskResolve(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.session()
	r.say(s, "spawn once")
	r.entered("once")
	r.restart()
	r.rest(s)
	path := "/v1/tasks/" + string(r.task(s).ID)
	if task := want[perdure.Task](r, 200, get(path)); task.State != perdure.TaskUnknown {
		t.Fatalf("got %s", task.State)
	}
	if task := want[perdure.Task](r, 200, post(path+"/resolve", `{"outcome":"did_not_happen","note":"looked"}`)); task.State != perdure.TaskFailed {
		t.Errorf("got %s", task.State)
	}
}

// TestTaskLog reads one log in every form: the bytes are always the same.
func TestTaskLog(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	path := "/v1/tasks/" + string(r.task(r.talk("spawn stream")).ID) + "/log"
	var whole, out bytes.Buffer
	for i := range 20 {
		fmt.Fprintf(&whole, "line %d of the log\n", i)
		if i%2 == 0 {
			fmt.Fprintf(&out, "line %d of the log\n", i)
		}
	}
	end := strconv.Itoa(whole.Len())

	got := r.do(get(path))
	if !bytes.Equal(got.body, whole.Bytes()) || got.header.Get("Perdure-Log-Offset") != "0" || got.header.Get("Perdure-Log-Next") != end ||
		got.header.Get("Perdure-Log-End") != end || got.header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("got %v %s", got.header, got.body)
	}
	if got := r.do(get(path + "?follow=true")); !bytes.Equal(got.body, whole.Bytes()) {
		t.Errorf("got %s", got.body)
	}
	if got := r.do(get(path + "?stream=out")); !bytes.Equal(got.body, out.Bytes()) || got.header.Get("Perdure-Log-Next") != end {
		t.Errorf("got %v %s", got.header, got.body)
	}
	if got := r.do(get(path + "?offset=-5")); string(got.body) != " log\n" || got.header.Get("Perdure-Log-Offset") != strconv.Itoa(whole.Len()-5) {
		t.Errorf("got %v %s", got.header, got.body)
	}
	var pieces bytes.Buffer
	for offset := "0"; offset != end; {
		got := r.do(get(path + "?limit=7&offset=" + offset))
		pieces.Write(got.body)
		if offset = got.header.Get("Perdure-Log-Next"); len(got.body) > 7 {
			t.Fatalf("got %d bytes, limit 7", len(got.body))
		}
	}
	if pieces.String() != whole.String() {
		t.Errorf("in pieces %s", pieces.String())
	}
	q := get(path + "?offset=10&limit=20")
	q.header = map[string]string{"Accept": "application/json"}
	log := want[engine.Log](r, 200, q)
	if log.Offset != 10 || log.Next != 30 || strconv.Itoa(int(log.End)) != end {
		t.Errorf("got %+v", log)
	}
	for _, query := range []string{"offset=x", "limit=0", "limit=2000000", "stream=in", "follow=maybe"} {
		r.refusal(r.do(get(path+"?"+query)), 400, "invalid")
	}
	q.header["Accept"] = "text/html"
	r.refusal(r.do(q), 406, "not_acceptable")
}

// TestTaskLogEnds: a client that reconnects after the end of a log stream gets 204, so that an
// EventSource stops reconnecting (H8).
func TestTaskLogEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	path := "/v1/tasks/" + string(r.task(r.talk("spawn stream")).ID) + "/log"
	for _, query := range []string{"", "?stream=out", "?stream=err"} {
		stream, last := r.open(path+query, nil), ""
		for {
			f, more := stream.next()
			if !more {
				break
			}
			if f.id == "" && f.name != "" {
				t.Errorf("%s: a %s has no place", query, f.name)
			}
			last = f.id
		}
		again := given(get(path+query), "Accept", "text/event-stream", "Last-Event-ID", last)
		if got := r.do(again); got.status != 204 || len(got.body) != 0 {
			t.Errorf("%s after %s: got %d %s", query, last, got.status, got.body)
		}
		if got := r.do(given(again, "Last-Event-ID", "0")); got.status != 200 || !strings.Contains(string(got.body), "event: end") {
			t.Errorf("%s from the start: got %d %s", query, got.status, got.body)
		}
	}
	q := given(get(path+"?offset=-1&stream=none"), "Accept", "application/json")
	r.refusal(r.do(q), 400, "invalid")
	end := r.do(get(path)).header.Get("Perdure-Log-End")
	if got := r.do(given(get(path+"?offset="+end), "Accept", "application/json")); got.status != 200 || !strings.Contains(string(got.body), `"chunks":[]`) {
		t.Errorf("nothing of a log is %d %s", got.status, got.body)
	}
}

// TestTaskLogFollow cuts a followed log after every chunk: the bytes are those of the log.
func TestTaskLogFollow(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	path := "/v1/tasks/" + string(r.task(r.talk("spawn stream")).ID) + "/log"
	whole := r.do(get(path)).body

	var got []byte
	for last, header := "", map[string]string{}; len(got) < len(whole); {
		if last != "" {
			header = map[string]string{"Last-Event-ID": last}
		}
		stream := r.open(path+"?offset=0", header)
		f := sse{}
		for f.name == "" {
			f, _ = stream.next()
		}
		stream.close()
		chunk := read[engine.Chunk](t, []byte(f.data))
		if f.name != "log" || int(chunk.Offset) != len(got) || f.id != strconv.Itoa(len(got)+len(chunk.Bytes)) {
			t.Fatalf("got %+v", f)
		}
		got, last = append(got, chunk.Bytes...), f.id
	}
	if !bytes.Equal(got, whole) {
		t.Errorf("got %s, want %s", got, whole)
	}
}

// TestTaskLogLive follows a task that runs: as events and as bytes, to its end.
func TestTaskLogLive(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.session()
	r.say(s, "spawn hold")
	r.entered("hold")
	path := "/v1/tasks/" + string(r.task(s).ID) + "/log"
	stream := r.open(path, nil)
	res, err := r.server.Client().Do(r.request(t.Context(), ask{method: http.MethodGet, path: path + "?follow=true"}))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()

	var names []string
	for f, ok := stream.next(); ok; f, ok = stream.next() {
		if f.name != "" {
			names = append(names, f.name)
			r.release()
		}
	}
	body, err := io.ReadAll(res.Body)

	if got := strings.Join(names, " "); got != "log end" {
		t.Errorf("got %s", got)
	}
	if string(body) != "working\n" || err != nil || res.Header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("got %q %v %v", body, err, res.Header)
	}
}

// TestTaskLogRotated reads a log without its middle: an offset in the gap is 410 with the offset at
// which the log continues, and a follower continues there.
func TestTaskLogRotated(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.session()
	r.say(s, "spawn hold")
	r.entered("hold")
	task := r.task(s)
	path := "/v1/tasks/" + string(task.ID) + "/log"
	stream := r.open(path, nil)
	first, _ := stream.next()
	for first.name == "" {
		first, _ = stream.next()
	}
	const missing = 1000
	if err := r.store.InTx(t.Context(), func(tx store.Tx) error {
		err := tx.Tasks().SkipLog(task.ID, task.Attempt, missing)
		if err == nil {
			_, err = tx.Tasks().AppendLog(task.ID, task.Attempt, "stdout", []byte("the end\n"))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	r.release()

	var got []string
	for f, ok := stream.next(); ok; f, ok = stream.next() {
		if f.name != "" {
			got = append(got, f.name+" "+f.id)
		}
	}
	if want := "gap 1008, log 1016, end 1016"; first.name != "log" || strings.Join(got, ", ") != want {
		t.Errorf("got %s, then %s, want %s", first.name, strings.Join(got, ", "), want)
	}
	for _, form := range []string{"application/octet-stream", "application/json", "text/event-stream"} {
		q := get(path + "?offset=500")
		q.header = map[string]string{"Accept": form}
		if p := want[api.Problem](r, http.StatusGone, q); p.Code != "rotated" || p.FirstOffset == nil || *p.FirstOffset != 1008 {
			t.Errorf("%s: got %+v", form, p)
		}
	}
	if got := r.do(get(path + "?offset=4&follow=true")); string(got.body) != "ing\nthe end\n" {
		t.Errorf("got %q", got.body)
	}
}

// TestTaskListOrders: a list begins with the newest task on request, walks to the oldest without a
// gap while others are added, and takes several states and kinds.
func TestTaskListOrders(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var made []string
	for range 5 {
		made = append(made, string(r.task(r.talk("spawn stream")).ID))
	}
	slices.Reverse(made)
	var seen []string
	for cursor := ""; ; {
		page := want[taskInList[perdure.Task]](r, 200, get("/v1/tasks?limit=2&order=newest&state=succeeded,%20failed&kind=background_tool,subagent&cursor="+cursor))
		for _, task := range page.Items {
			seen = append(seen, string(task.ID))
		}
		if cursor = page.Next; cursor == "" {
			break
		}
		r.talk("spawn stream") // comes before the first page
	}
	if !slices.Equal(seen, made) {
		t.Errorf("got %v, want %v", seen, made)
	}
	if n := len(want[taskInList[perdure.Task]](r, 200, get("/v1/tasks?kind=monitor")).Items); n != 0 {
		t.Errorf("got %d monitors", n)
	}
	page := want[taskInList[perdure.Task]](r, 200, get("/v1/tasks?limit=1&order=newest"))
	r.refusal(r.do(get("/v1/tasks?limit=1&cursor="+page.Next)), 400, "invalid") // a cursor of another order
	r.refusal(r.do(get("/v1/tasks?state=succeeded,done")), 400, "invalid")
	r.refusal(r.do(get("/v1/tasks?kind=job")), 400, "invalid")
	r.refusal(r.do(get("/v1/tasks?order=random")), 400, "invalid")
}

func TestTaskCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	if none := want[engine.TaskOverview](r, 200, get("/v1/tasks:count")); none.States[perdure.TaskRunning] != 0 || len(none.States) != 7 || none.HeartbeatMS <= 0 || none.GraceMS <= 0 {
		t.Errorf("without tasks: %+v", none)
	}
	for range 3 {
		r.task(r.talk("spawn stream"))
	}
	counted := want[engine.TaskOverview](r, 200, get("/v1/tasks:count"))
	if counted.States[perdure.TaskSucceeded] != 3 || counted.Monitors[perdure.TaskSucceeded] != 0 {
		t.Errorf("got %+v, want 3 succeeded tasks and no monitor", counted)
	}
	if got := want[taskInList[engine.Recovery]](r, 200, get("/v1/recoveries")); got.Items == nil || len(got.Items) != 0 {
		t.Errorf("recoveries of a server that took nothing over: %+v", got)
	}
}
