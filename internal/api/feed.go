package api

import (
	"bytes"
	queue "container/list"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// What a feed keeps, and what one who follows takes of it at once.
const (
	ringFrames = 1024      // frames (events.ring)
	ringBytes  = 256 << 10 // of their texts; the newest frame is kept however long it is: there is a ring for each session that is followed
	takeFrames = 64        // before it is flushed
	takeBytes  = 64 << 10  // the last frame apart
)

// kindDelta is the type of a live frame with text of an answer.
const kindDelta = "output.message.delta"

// feed is one session that is followed. It keeps the newest frames, encoded once for all. It waits for nobody: who falls out of
// its ring reads the journal by itself until it is there again. The lock of its source guards the fields below, too.
type feed struct {
	source
	ring   []*piece
	first  int64 // number of ring[0]; pieces are counted from 0
	bytes  int
	base   int64 // the ring has every event after this seq, and before its end
	lives  int64 // live frames that there were, those that were dropped included
	err    error // why it ended
	spoken spoken
}

// spoken is the text so far of the answer that streams, for who joins in its midst (ST4).
type spoken struct {
	message perdure.MessageID
	text    string
	whole   *piece // of text; nil: it is not made
}

// outputDelta is the data of a live frame with text of an answer.
type outputDelta struct {
	Message perdure.MessageID `json:"message_id"`
	Offset  int               `json:"offset"` // bytes of the text before it; what stands behind them goes
	Delta   string            `json:"delta"`
}

// note takes what a frame says of the answer.
func (s *spoken) note(frame engine.Frame) {
	if frame.Event != nil {
		switch frame.Event.Fact.(type) {
		case perdure.OutputStarted, perdure.OutputReplaced, perdure.OutputCompleted,
			perdure.TurnCompleted, perdure.TurnFailed, perdure.TurnCanceled, perdure.TurnSealed:
			*s = spoken{}
		}
		return
	}
	var d outputDelta
	if frame.Type != kindDelta || perdure.DecodeKnownJSON(frame.Data, &d) != nil {
		return
	}
	if d.Message != s.message {
		*s = spoken{message: d.Message}
	}
	if d.Offset <= len(s.text) {
		s.text, s.whole = s.text[:d.Offset]+d.Delta, nil
	}
}

// piece is a live frame with the whole text so far; nil: there is none.
func (s *spoken) piece() *piece {
	if s.whole == nil && s.text != "" {
		data, err := json.Marshal(outputDelta{Message: s.message, Delta: s.text})
		if err == nil {
			s.whole = newLive(engine.Frame{Type: kindDelta, Data: data})
		}
	}
	return s.whole
}

// piece is a frame for all who follow. It does not change.
type piece struct {
	seq     int64 // 0: live only
	kind    string
	lives   int64 // the feed's, with this one
	text    []byte
	generic []byte // what a reader under generic is told
	size    int
}

// newPiece encodes an event.
func newPiece(e perdure.Event) (*piece, error) {
	text, err := perdure.EncodeEvent(disclosed(e, Standard))
	if err != nil {
		return nil, err
	}
	text = bytes.Clone(text) // an encoder leaves up to as much room again behind it
	p := &piece{seq: e.Seq, kind: string(e.Type()), text: text, generic: text, size: len(text)}
	switch e.Fact.(type) {
	case perdure.TurnFailed, perdure.ReasonCompleted, perdure.Generation: // see disclosed
		p.generic, err = perdure.EncodeEvent(disclosed(e, Generic))
		p.size += len(p.generic)
	}
	return p, err
}

// newLive is the piece of a live frame.
func newLive(frame engine.Frame) *piece {
	text := []byte(frame.Data)
	if len(text) == 0 {
		text = []byte("{}")
	}
	return &piece{kind: frame.Type, text: text, generic: text, size: len(text)}
}

// body is what stands in the data of the frame.
func (p *piece) body(d Disclosure) []byte {
	if d == Generic {
		return p.generic
	}
	return p.text
}

// place is where one who follows stands in a feed.
type place struct {
	after int64 // seq of the last event that was taken
	next  int64 // number of the next piece; -1: it is to be found by after
	shown int64 // live pieces before this number were taken, or are of before its time
	lives int64 // of the feed, when the last live piece was taken
	late  bool  // it lacks the text so far of the answer that streams
}

// taken is a piece with the number of live frames that are missing before it.
type taken struct {
	*piece
	dropped int64
}

// follow joins the feed of a session whose last seq is known. The place that is returned is after the seq that is asked for.
func (a *API) follow(ctx context.Context, id perdure.SessionID, last, after int64, wake chan struct{}) (*feed, place) {
	f := a.feeds.join(ctx, id, wake, func() (*feed, func(context.Context)) {
		f := &feed{base: last}
		return f, func(ctx context.Context) { f.run(ctx, a.cfg.Engine, id, last) }
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	return f, place{after: after, next: -1, shown: f.first + int64(len(f.ring)), lives: f.lives, late: true}
}

func (f *feed) run(ctx context.Context, journals engine.Journals, id perdure.SessionID, after int64) {
	err := journals.Follow(ctx, id, after, f.add)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended, f.err = true, err
	f.tell()
}

// add puts a frame into the ring, and the oldest ones out of it.
func (f *feed) add(frame engine.Frame) error {
	p := newLive(frame)
	if frame.Event != nil {
		var err error
		if p, err = newPiece(*frame.Event); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lives += int64(frame.Dropped)
	f.spoken.note(frame)
	if p.kind == "" {
		return nil // it only says what was dropped
	}
	if p.seq == 0 {
		f.lives++
	}
	p.lives = f.lives
	f.ring, f.bytes = append(f.ring, p), f.bytes+p.size
	for len(f.ring) > 1 && (len(f.ring) > ringFrames || f.bytes > ringBytes) {
		old := f.ring[0]
		f.ring[0] = nil // let go of it
		f.ring, f.first, f.bytes = f.ring[1:], f.first+1, f.bytes-old.size
		f.base = max(f.base, old.seq)
	}
	f.tell()
	return nil
}

// take returns what comes next, at most so much that it is soon written. behind says that the ring does not reach back to
// where p is: the events up to the ring are to be read from the journal. ended says that nothing comes any more.
func (f *feed) take(p *place) (some []taken, behind, ended bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	end := f.first + int64(len(f.ring))
	if p.next < f.first {
		if p.after < f.base {
			p.next, p.late = -1, true
			return nil, true, false
		}
		p.next = f.first
	}
	for size := 0; p.next < end && len(some) < takeFrames && size < takeBytes; p.next++ {
		one := taken{piece: f.ring[p.next-f.first]}
		switch {
		case one.seq > p.after:
			p.after = one.seq
		case one.seq == 0 && p.next >= p.shown && p.late && one.kind == kindDelta:
			p.lives = one.lives // it is in the text so far
			continue
		case one.seq == 0 && p.next >= p.shown:
			one.dropped, p.lives = one.lives-p.lives-1, one.lives
		default:
			continue
		}
		some, size = append(some, one), size+one.size
	}
	p.shown = max(p.shown, p.next)
	if p.late && p.next == end {
		p.late = false
		if whole := f.spoken.piece(); whole != nil {
			some = append(some, taken{piece: whole})
		}
	}
	return some, false, f.ended && p.next == end
}

// reach is the seq after which the ring has the events.
func (f *feed) reach() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.base
}

// olds are events that clients who are behind are being sent. Many who begin at the same event, as after a restart, read it
// once, and those who are stuck in the same long one hold it once. Safe for concurrent use.
type olds struct {
	engine engine.Journals
	reads  chan struct{} // has a place for each read at a time, so that what they need in between is bounded
	mu     sync.Mutex
	open   map[oldKey]*old // guarded by mu
	idle   queue.List      // guarded by mu; of *old that nobody holds now, the one that was let go of first in front
	bytes  int             // guarded by mu; of those
}

const (
	oldReads = 2           // old events are read at a time
	oldBytes = 4 << 20     // of them are kept for who comes next
	oldTime  = time.Second // for so long: a session that is removed may be imported again, with other events
)

type oldKey struct {
	session perdure.SessionID
	seq     int64
}

// old is one event. Who waits for ready may read piece and err.
type old struct {
	key   oldKey
	users int            // guarded by the lock of olds
	idle  *queue.Element // guarded by the lock of olds; nil: somebody holds it
	since time.Time      // guarded by the lock of olds: when it was let go of
	ready chan struct{}
	piece *piece
	err   error
}

// hold reads the event of a seq, or shares it with those who hold it now. release is to be called if there is no error.
func (o *olds) hold(ctx context.Context, key oldKey) (p *piece, release func(), err error) {
	one, known := o.enter(key)
	if !known {
		one.piece, one.err = o.read(context.WithoutCancel(ctx), key) // others wait for it, too
		close(one.ready)
	}
	<-one.ready
	if one.err != nil {
		o.release(one)
		return nil, nil, one.err
	}
	return one.piece, func() { o.release(one) }, nil
}

// enter counts one who holds an event. What is not known is to be read.
func (o *olds) enter(key oldKey) (one *old, known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if one, known = o.open[key]; known && one.idle != nil {
		o.forget(one)
		if known = time.Since(one.since) < oldTime; known {
			o.open[key] = one
		}
	}
	if !known {
		one = &old{key: key, ready: make(chan struct{})}
		o.open[key] = one
	}
	one.users++
	return one, known
}

// forget takes what nobody holds out of what is kept. The lock is held.
func (o *olds) forget(one *old) {
	o.bytes -= one.piece.size
	o.idle.Remove(one.idle)
	one.idle = nil
	delete(o.open, one.key)
}

// release ends what enter began. What nobody holds any more is kept while there is room.
func (o *olds) release(one *old) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if one.users--; one.users > 0 {
		return
	}
	if one.err != nil {
		delete(o.open, one.key)
		return
	}
	one.idle, one.since, o.bytes = o.idle.PushBack(one), time.Now(), o.bytes+one.piece.size
	for front := o.idle.Front(); front != nil; front = o.idle.Front() {
		oldest := front.Value.(*old) // nothing else is put there
		if o.bytes <= oldBytes && time.Since(oldest.since) < oldTime {
			return
		}
		o.forget(oldest)
	}
}

func (o *olds) read(ctx context.Context, key oldKey) (*piece, error) {
	o.reads <- struct{}{}
	defer func() { <-o.reads }()
	events, err := o.engine.Events(ctx, key.session, key.seq-1, 1)
	if err != nil {
		return nil, err
	}
	if len(events) == 0 || events[0].Seq != key.seq {
		return nil, fmt.Errorf("read event %d of %s: %w: the journal does not have it", key.seq, key.session, perdure.NotFound)
	}
	return newPiece(events[0])
}
