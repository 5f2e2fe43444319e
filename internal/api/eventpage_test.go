package api_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
)

func (p eventPage) seqs() (all []int64) {
	for _, e := range p.Items {
		all = append(all, e.Seq)
	}
	return all
}

func TestEventPagesBackward(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.talk("echo", "hi", "echo", "hi", "hi", "hi")
	journal := r.journal(s)
	last := int64(len(journal))

	var got []int64
	for before := last + 1; before > 1; {
		page := want[eventPage](r, 200, get(fmt.Sprintf("%s/events?before=%d&limit=7", s, before)))
		if len(page.Items) == 0 || len(page.Items) > 7 || page.LastSeq != last || page.ReadTo != page.Items[len(page.Items)-1].Seq {
			t.Fatalf("got %d items, last_seq %d, read_to %d", len(page.Items), page.LastSeq, page.ReadTo)
		}
		got, before = append(got, page.seqs()...), page.ReadTo
	}
	slices.Reverse(got)
	if int64(len(got)) != last || got[0] != 1 || !slices.IsSorted(got) {
		t.Errorf("got %v, want 1 to %d", got, last)
	}
	if page := want[eventPage](r, 200, get(s+"/events?before=1")); len(page.Items) != 0 || page.ReadTo != 1 {
		t.Errorf("before the first event: %s", raw(page))
	}
	if page := want[eventPage](r, 200, get(fmt.Sprintf("%s/events?before=%d&limit=1", s, last+1000))); page.Items[0].Seq != last {
		t.Errorf("from behind the end: %s", raw(page))
	}
	page := want[eventPage](r, 200, get(fmt.Sprintf("%s/events?before=%d&types=turn.started&limit=1", s, last+1)))
	if len(page.Items) != 1 || page.Items[0].Type() != "turn.started" || page.ReadTo != page.Items[0].Seq {
		t.Errorf("the latest turn: %s", raw(page))
	}
	for _, query := range []string{"before=-1", "before=x", "before=9&after=1", "since=x", "of=" + strings.Repeat("a", 201)} {
		r.refusal(r.do(get(s+"/events?"+query)), 400, "invalid")
	}
	r.refusal(r.do(ask{method: "GET", path: s + "/events?text=hi", header: map[string]string{"Accept": "text/event-stream"}}), 400, "invalid")
}

func TestEventPagesFiltered(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.talk("echo", "hi", "echo", "hi", "hi", "hi")
	all := want[eventPage](r, 200, get(s+"/events?limit=200")).Items
	var call perdure.ToolCompleted
	var at time.Time
	for _, e := range all {
		if f, is := e.Fact.(perdure.ToolCompleted); is && call.CallID == "" {
			call, at = f, e.At
		}
	}
	filter := func(query string) []perdure.Event {
		t.Helper()
		page := want[eventPage](r, 200, get(s+"/events?limit=200&"+query))
		if page.ReadTo != page.LastSeq {
			t.Errorf("%s: read to %d of %d", query, page.ReadTo, page.LastSeq)
		}
		return page.Items
	}

	of := filter("of=" + url.QueryEscape(string(call.CallID)))
	if len(of) == 0 || len(of) == len(all) {
		t.Errorf("%d of %d events name the call", len(of), len(all))
	}
	for _, e := range of {
		if text, _ := perdure.EncodeEvent(e); !strings.Contains(string(text), `"`+string(call.CallID)+`"`) {
			t.Errorf("%s does not name the call", text)
		}
	}
	if got := filter("of=call_none"); len(got) != 0 {
		t.Errorf("%d events name an unknown call", len(got))
	}
	if user, runtime := len(filter("actor=user")), len(filter("actor=runtime")); user == 0 || runtime == 0 || user+runtime > len(all) {
		t.Errorf("%d of the user, %d of the runtime, %d in all", user, runtime, len(all))
	}
	if got := filter("text=SESSION.Created"); len(got) != 1 {
		t.Errorf("%d events with the text", len(got))
	}
	since, until := url.QueryEscape(at.Format(time.RFC3339Nano)), url.QueryEscape(at.Add(-time.Microsecond).Format(time.RFC3339Nano))
	if got := len(filter("since="+since)) + len(filter("until="+until)); got != len(all) {
		t.Errorf("%d events before and after a moment, want %d", got, len(all))
	}
}

func TestEventState(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.talk("echo", "hi")
	last := int64(len(r.journal(s)))
	type state struct {
		Event   perdure.Event          `json:"event"`
		Before  perdure.SessionOutline `json:"before"`
		After   perdure.SessionOutline `json:"after"`
		Changes []perdure.StateChange  `json:"changes"`
	}

	first := want[state](r, 200, get(s+"/events/1"))
	if first.Event.Type() != "session.created" || first.Before.Seq != 0 || first.After.Status != perdure.SessionStarted ||
		!slices.Contains(first.Changes, perdure.StateChange{What: "state", After: "started"}) {
		t.Errorf("got %s", raw(first))
	}
	was := first.After
	for seq := int64(2); seq <= last; seq++ {
		got := want[state](r, 200, get(fmt.Sprintf("%s/events/%d", s, seq)))
		if got.Event.Seq != seq || got.Before != was || got.After.Seq != seq {
			t.Fatalf("at %d: %s", seq, raw(got))
		}
		was = got.After
	}
	if was.Status != perdure.SessionIdle || was.Messages == 0 {
		t.Errorf("at the end: %s", raw(was))
	}
	r.refusal(r.do(get(fmt.Sprintf("%s/events/%d", s, last+1))), 404, "not_found")
	r.refusal(r.do(get(s+"/events/0")), 400, "invalid")
	r.refusal(r.do(get(s+"/events/x")), 400, "invalid")
}
