package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// said is an event with a text of a length.
func said(seq int64, length int) engine.Frame {
	return engine.Frame{Event: &perdure.Event{Seq: seq, Fact: perdure.MessageReceived{Message: perdure.Text(strings.Repeat("a", length))}}}
}

func live(n int) engine.Frame {
	return engine.Frame{Type: "tool.progress", Data: fmt.Appendf(nil, `{"n":%d}`, n)}
}

// fed is a feed that begins after a seq, with frames.
func fed(t *testing.T, base int64, frames ...engine.Frame) *feed {
	t.Helper()
	f := &feed{base: base}
	for _, frame := range frames {
		if err := f.add(frame); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// short formats the taken pieces on one line: the seqs of events, l for live frames, preceded by
// the number of missing frames.
func short(some []takenFrame) string {
	var all []string
	for _, one := range some {
		switch {
		case one.seq > 0:
			all = append(all, fmt.Sprint(one.seq))
		case one.dropped > 0:
			all = append(all, fmt.Sprintf("l-%d", one.dropped))
		default:
			all = append(all, "l")
		}
	}
	return strings.Join(all, " ")
}

// TestFeedTake: a new follower gets every event after its position once, and live frames from then
// on.
func TestFeedTake(t *testing.T) {
	t.Parallel()
	f := fed(t, 3, said(4, 1), live(1), said(5, 1))
	late := feedPosition{afterSeq: 3, nextPiece: -1, shownLives: 3, liveCount: 1}
	ahead := feedPosition{afterSeq: 5, nextPiece: -1, shownLives: 3, liveCount: 1}
	before := feedPosition{afterSeq: 2, nextPiece: -1, shownLives: 3, liveCount: 1}

	some, behind, _ := f.take(&late)
	if got := short(some); got != "4 5" || behind {
		t.Errorf("got %q %v", got, behind)
	}
	if some, behind, _ = f.take(&ahead); len(some) != 0 || behind {
		t.Errorf("got %q %v", short(some), behind)
	}
	if some, behind, _ = f.take(&before); len(some) != 0 || !behind {
		t.Errorf("got %q %v", short(some), behind)
	}
	for _, frame := range []engine.Frame{live(2), {Type: "tool.progress", Dropped: 2}, said(6, 1)} {
		if err := f.add(frame); err != nil {
			t.Fatal(err)
		}
	}
	before.afterSeq = 3 // it has read what the ring does not have
	for name, c := range map[string]struct {
		at   *feedPosition
		want string
	}{"late": {&late, "l l-2 6"}, "ahead": {&ahead, "l l-2 6"}, "before": {&before, "4 5 l l-2 6"}} {
		if some, behind, _ := f.take(c.at); short(some) != c.want || behind {
			t.Errorf("%s got %q %v, want %q", name, short(some), behind, c.want)
		}
	}
}

// TestFeedRing: a feed keeps a limited number of frames and bytes, and a follower that falls behind
// is notified.
func TestFeedRing(t *testing.T) {
	t.Parallel()
	f := fed(t, 0)
	at := feedPosition{nextPiece: -1}
	for i := range int64(ringFrames + 10) {
		if err := f.add(said(i+1, 10)); err != nil {
			t.Fatal(err)
		}
	}
	if _, behind, _ := f.take(&at); !behind || len(f.ring) != ringFrames || f.coveredAfter() != 10 {
		t.Errorf("behind %v, %d frames after %d", behind, len(f.ring), f.coveredAfter())
	}
	at.afterSeq = 10
	if some, behind, _ := f.take(&at); behind || len(some) != takeFrames || some[0].seq != 11 {
		t.Errorf("got %q", short(some))
	}
	for i := range int64(5) {
		if err := f.add(said(ringFrames+11+i, ringBytes/2)); err != nil {
			t.Fatal(err)
		}
	}
	if f.bytes > ringBytes || len(f.ring) == 0 {
		t.Errorf("%d bytes in %d frames", f.bytes, len(f.ring))
	}
	if err := f.add(said(ringFrames+16, 3*ringBytes)); err != nil {
		t.Fatal(err)
	}
	if len(f.ring) != 1 || f.coveredAfter() != ringFrames+15 {
		t.Errorf("%d frames after %d", len(f.ring), f.coveredAfter())
	}
}

// journal is a journal that is read, once the gate is open.
type journal struct {
	gate  chan struct{}
	reads chan int64
	size  int // of the texts
}

func (j *journal) Events(_ context.Context, _ perdure.SessionID, after int64, limit int) ([]perdure.Event, error) {
	j.reads <- after
	<-j.gate
	if after > 9 {
		return nil, nil
	}
	return []perdure.Event{*said(after+1, max(limit, j.size)).Event}, nil
}

func (j *journal) Follow(context.Context, perdure.SessionID, int64, func(engine.Frame) error) error {
	return errors.New("nothing follows here")
}

// TestOldsAreShared: followers that are stuck in the same event share one copy of it, which is
// released when they are gone.
func TestOldsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, oldsAreShared)
}

func oldsAreShared(t *testing.T) {
	j := &journal{gate: make(chan struct{}), reads: make(chan int64, 10)}
	o := &eventCache{engine: j, reads: make(chan struct{}, 1), open: map[eventKey]*cachedEvent{}}
	type held struct {
		piece   *piece
		release func()
	}
	all := make(chan held)
	for range 5 {
		go func() {
			p, release, err := o.get(t.Context(), eventKey{"session_1", 4})
			if err != nil {
				t.Error(err)
			}
			all <- held{p, release}
		}()
	}
	<-j.reads
	close(j.gate)
	first := <-all
	releases := []func(){first.release}
	for range 4 {
		one := <-all
		if releases = append(releases, one.release); one.piece != first.piece {
			t.Errorf("got %+v", one.piece)
		}
	}
	again, release, err := o.get(t.Context(), eventKey{"session_1", 4})
	if err != nil || again != first.piece || len(o.open) != 1 {
		t.Errorf("got %v %v", again, err)
	}
	release()
	if _, _, err := o.get(t.Context(), eventKey{"session_1", 11}); !errors.Is(err, perdure.NotFound) || len(o.open) != 1 {
		t.Errorf("got %v, %d held", err, len(o.open))
	}
	<-j.reads
	for _, give := range releases {
		give()
	}
	if len(o.open) != 1 || o.idle.Len() != 1 || o.bytes != first.piece.size {
		t.Errorf("%d are known and %d kept, of %d bytes", len(o.open), o.idle.Len(), o.bytes)
	}
	if _, release, err = o.get(t.Context(), eventKey{"session_1", 4}); err != nil || o.idle.Len() != 0 || len(j.reads) != 0 {
		t.Errorf("got %v, %d kept, read again: %v", err, o.idle.Len(), len(j.reads) > 0)
	}
	release()
	j.size = eventCacheBytes + 1
	if _, release, err = o.get(t.Context(), eventKey{"session_1", 5}); err != nil {
		t.Fatal(err)
	}
	release() // it alone is more than there is room for
	if len(o.open) != 0 || o.bytes != 0 {
		t.Errorf("%d are known, of %d bytes", len(o.open), o.bytes)
	}
}

// TestST4TextSoFar: a follower that joins during an answer, or falls behind in it, gets the text so
// far once, after the events before it, and then only new text.
func TestST4TextSoFar(t *testing.T) {
	t.Parallel()
	begun := engine.Frame{Event: &perdure.Event{Seq: 4, Fact: perdure.OutputStarted{MessageID: "message_1"}}}
	spoke := func(offset int, text string) engine.Frame {
		return engine.Frame{Type: kindDelta, Data: fmt.Appendf(nil, `{"message_id":"message_1","offset":%d,"delta":%q}`, offset, text)}
	}
	f := fed(t, 3, begun, spoke(0, "It is "), live(1), spoke(6, "inn"))
	there := feedPosition{afterSeq: 3, nextPiece: -1, needsTextSoFar: true}
	joins := feedPosition{afterSeq: 3, nextPiece: -1, shownLives: 4, liveCount: 3, needsTextSoFar: true}
	lost := feedPosition{afterSeq: 2, nextPiece: -1, shownLives: 4, liveCount: 3}
	texts := func(at *feedPosition) string {
		some, behind, _ := f.take(at)
		var all []string
		for _, one := range some {
			switch {
			case one.seq > 0:
				all = append(all, fmt.Sprint(one.seq))
			case one.kind == kindDelta:
				var d outputDelta
				if err := perdure.DecodeKnownJSON(one.text, &d); err != nil {
					t.Fatal(err)
				}
				all = append(all, fmt.Sprintf("%d:%s", d.Offset, d.Delta))
			default:
				all = append(all, "l")
			}
			if one.dropped > 0 {
				t.Errorf("%d frames were dropped", one.dropped)
			}
		}
		return fmt.Sprint(strings.Join(all, " "), behind)
	}
	for _, step := range []struct {
		name string
		at   *feedPosition
		add  []engine.Frame
		want string
	}{
		{"all of it", &there, nil, "4 l 0:It is innfalse"},
		{"its midst", &joins, nil, "4 0:It is innfalse"},
		{"once", &joins, nil, "false"},
		{"what is new", &joins, []engine.Frame{spoke(8, " the drawer")}, "8: the drawerfalse"},
		{"out of the ring", &lost, nil, "true"},
	} {
		for _, frame := range step.add {
			if err := f.add(frame); err != nil {
				t.Fatal(err)
			}
		}
		if got := texts(step.at); got != step.want {
			t.Errorf("%s: got %q, want %q", step.name, got, step.want)
		}
	}
	lost.afterSeq = 3 // it has read what the ring does not have
	if got := texts(&lost); got != "4 0:It is in the drawerfalse" {
		t.Errorf("after a hole: got %q", got)
	}
	ends := engine.Frame{Event: &perdure.Event{Seq: 5, Fact: perdure.OutputCompleted{}}}
	if err := f.add(ends); err != nil {
		t.Fatal(err)
	}
	after := feedPosition{afterSeq: 4, nextPiece: -1, shownLives: 5, liveCount: 4, needsTextSoFar: true}
	if got := texts(&after); got != "5false" {
		t.Errorf("after its end: got %q", got)
	}
}
