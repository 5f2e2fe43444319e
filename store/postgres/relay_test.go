package postgres

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

const published = perdure.SessionID("session_1")

// send publishes n frames in a second, one after another, and returns the notifications.
func send(o *outbox, from time.Time, n int) (sent []notification) {
	for i := range n {
		now := from.Add(time.Duration(i) * time.Second / time.Duration(n))
		o.publish(store.Frame{Session: published, Type: "output.message.delta", Data: i}, now)
		due, _ := o.take(now)
		sent = append(sent, due...)
	}
	return sent
}

// TestRelayIsSilentAlone publishes frames that nobody in another process watches. There is one
// question, and later another one, but no frame.
func TestRelayIsSilentAlone(t *testing.T) {
	t.Parallel()
	start := time.Now()
	o := newOutbox()

	first := send(o, start, 200)
	rest := send(o, start.Add(watchLifetime+time.Second), 200)

	if len(first) != 0 { // the listener asks
		t.Errorf("got %v", first)
	}
	if len(rest) != 1 || rest[0].kind != whoWatches {
		t.Errorf("got %v, want one question", rest)
	}
}

// TestRelayRate publishes 200 frames in a second to a watcher in another process. They take at most
// 20 notifications, and all of them arrive.
func TestRelayRate(t *testing.T) {
	t.Parallel()
	start := time.Now()
	o, reader := newOutbox(), frameReader{}
	o.publish(store.Frame{Session: published, Data: "first"}, start)
	o.heard(published, start)

	sent := send(o, start, 200)
	due, _ := o.take(start.Add(2 * time.Second))
	sent = append(sent, due...)

	if len(sent) > 21 {
		t.Errorf("%d notifications", len(sent))
	}
	var got []store.Frame
	for _, n := range sent {
		got = append(got, reader.read(n, "origin")...)
	}
	if len(got) != 201 || fmt.Sprintf("%s", got[200].Data) != "199" {
		t.Errorf("%d frames arrived, want 201 in order", len(got))
	}
}

// TestRelayDropsTheOldest publishes more than may wait. The oldest frames are dropped, and the
// others say how many.
func TestRelayDropsTheOldest(t *testing.T) {
	t.Parallel()
	const n = 100
	start := time.Now()
	o, reader := newOutbox(), frameReader{}
	text := strings.Repeat("x", maxRelayBytes/20)
	o.heard(published, start) // too early: it publishes nothing yet
	for i := range n {
		o.publish(store.Frame{Session: published, Data: fmt.Sprint(i, text)}, start)
	}
	o.heard(published, start)

	var got []store.Frame
	for now, next := start, start; !next.IsZero(); now = next {
		var due []notification
		due, next = o.take(now)
		for _, sent := range due {
			if size := len(sent.payload(strings.Repeat("o", 26))); size > maxPayloadBytes {
				t.Errorf("a notification of %d bytes", size)
			}
			got = append(got, reader.read(sent, "origin")...)
		}
	}

	dropped := 0
	for _, f := range got {
		dropped += f.Dropped
	}
	if len(got) < 10 || len(got)+dropped != n {
		t.Errorf("%d frames arrived and %d were dropped, want %d together", len(got), dropped, n)
	}
	if last := string(got[len(got)-1].Data.(json.RawMessage)); !strings.HasPrefix(last, `"99`) {
		t.Errorf("the last is %.10s, want the newest", last)
	}
}

// TestRelayContinues loses the middle of a large frame. The next frame arrives whole, and nothing
// is made of the pieces.
func TestRelayContinues(t *testing.T) {
	t.Parallel()
	start := time.Now()
	for _, lost := range []int{0, 1, 2, 3} {
		o, reader := newOutbox(), frameReader{}
		o.publish(store.Frame{Session: published, Data: strings.Repeat("ä", 3*maxPayloadBytes/2)}, start)
		o.heard(published, start)
		var got []store.Frame
		for i, now := 0, start; i <= lost || !o.relays[published].isEmpty(); i, now = i+1, now.Add(framePause) {
			due, _ := o.take(now)
			if len(due) != 1 {
				t.Fatalf("got %d notifications, want 1", len(due))
			}
			if i != lost {
				got = append(got, reader.read(due[0], "origin")...)
				continue
			}
			o.abandon(due)
			o.publish(store.Frame{Session: published, Data: "next"}, now)
		}
		if len(got) != 1 || string(got[0].Data.(json.RawMessage)) != `"next"` {
			t.Errorf("without notification %d: got %d frames, want the next", lost, len(got))
		}
	}
}
