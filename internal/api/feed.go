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

// The limits of a feed's ring, and of the frames that a follower takes at once.
const (
	ringFrames = 1024 // frames in the ring (setting events.ring)
	// Bytes of encoded frames in the ring. The newest frame is always kept, whatever its size.
	ringBytes  = 256 << 10
	takeFrames = 64       // frames taken before a flush
	takeBytes  = 64 << 10 // bytes taken before a flush; the last frame may exceed it
)

// kindDelta is the type of a live frame with a piece of the answer that streams.
const kindDelta = "output.message.delta"

// feed follows one session for all clients that follow it. It keeps the newest frames, each encoded
// once for all. A feed waits for no client: a client that falls behind the ring reads the journal
// on its own until it has caught up. The mutex of its source also guards the fields below.
type feed struct {
	source
	ring      []*piece
	first     int64 // number of ring[0]; pieces are numbered from 0
	bytes     int
	base      int64 // the ring holds all events after this seq up to the newest
	liveCount int64 // number of live frames so far, including dropped ones
	err       error // why the source ended
	textSoFar streamedText
}

// streamedText is the text so far of the answer that streams, for clients that join in the middle
// (ST4).
type streamedText struct {
	message perdure.MessageID
	text    string
	encoded *piece // encodes text; nil: not encoded yet
}

// outputDelta is the data of a live frame with a piece of the answer.
type outputDelta struct {
	Message perdure.MessageID `json:"message_id"`
	Offset  int               `json:"offset"` // bytes of text before the delta; any text after it is replaced
	Delta   string            `json:"delta"`
}

// apply applies a frame to the text so far.
func (s *streamedText) apply(frame engine.Frame) {
	if frame.Event != nil {
		switch frame.Event.Fact.(type) {
		case perdure.OutputStarted, perdure.OutputReplaced, perdure.OutputCompleted,
			perdure.TurnCompleted, perdure.TurnFailed, perdure.TurnCanceled, perdure.TurnSealed:
			*s = streamedText{}
		}
		return
	}
	var d outputDelta
	if frame.Type != kindDelta || perdure.DecodeKnownJSON(frame.Data, &d) != nil {
		return
	}
	if d.Message != s.message {
		*s = streamedText{message: d.Message}
	}
	if d.Offset <= len(s.text) {
		s.text, s.encoded = s.text[:d.Offset]+d.Delta, nil
	}
}

// piece returns a live frame with the whole text so far, or nil if there is none.
func (s *streamedText) piece() *piece {
	if s.encoded == nil && s.text != "" {
		data, err := json.Marshal(outputDelta{Message: s.message, Delta: s.text})
		if err == nil {
			s.encoded = newLive(engine.Frame{Type: kindDelta, Data: data})
		}
	}
	return s.encoded
}

// piece is an encoded frame, shared by all followers. It is immutable.
type piece struct {
	seq       int64 // 0: a live frame
	kind      string
	liveCount int64 // the feed's lives, including this one
	text      []byte
	generic   []byte // the encoding shown under generic disclosure
	size      int
}

// newPiece encodes an event.
func newPiece(e perdure.Event) (*piece, error) {
	text, err := perdure.EncodeEvent(disclose(e, Standard))
	if err != nil {
		return nil, err
	}
	text = bytes.Clone(text) // the encoder over-allocates; keep only what is used
	p := &piece{seq: e.Seq, kind: string(e.Type()), text: text, generic: text, size: len(text)}
	switch e.Fact.(type) {
	case perdure.TurnFailed, perdure.ReasonCompleted, perdure.Generation: // see disclosed
		p.generic, err = perdure.EncodeEvent(disclose(e, Generic))
		p.size += len(p.generic)
	}
	return p, err
}

// newLive makes the piece of a live frame.
func newLive(frame engine.Frame) *piece {
	text := []byte(frame.Data)
	if len(text) == 0 {
		text = []byte("{}")
	}
	return &piece{kind: frame.Type, text: text, generic: text, size: len(text)}
}

// body returns the data of the frame for a disclosure level.
func (p *piece) body(d Disclosure) []byte {
	if d == Generic {
		return p.generic
	}
	return p.text
}

// feedPosition is the position of one follower in a feed.
type feedPosition struct {
	afterSeq       int64 // seq of the last event taken
	nextPiece      int64 // number of the next piece; -1: to be determined from after
	shownLives     int64 // live pieces before this number were taken, or precede the follower
	liveCount      int64 // the feed's lives when the last live piece was taken
	needsTextSoFar bool  // the follower still needs the text so far of the answer that streams
}

// takenFrame is a piece with the number of live frames dropped before it.
type takenFrame struct {
	*piece
	dropped int64
}

// openFeed joins the feed of a session whose last seq is known. The returned place is after the seq
// `after`.
func (a *API) openFeed(ctx context.Context, id perdure.SessionID, last, after int64, wake chan struct{}) (*feed, feedPosition) {
	f := a.feeds.join(ctx, id, wake, func() (*feed, func(context.Context)) {
		f := &feed{base: last}
		return f, func(ctx context.Context) { f.run(ctx, a.cfg.Engine, id, last) }
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	return f, feedPosition{afterSeq: after, nextPiece: -1, shownLives: f.first + int64(len(f.ring)), liveCount: f.liveCount, needsTextSoFar: true}
}

func (f *feed) run(ctx context.Context, journals engine.Journal, id perdure.SessionID, after int64) {
	err := journals.Follow(ctx, id, after, f.add)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended, f.err = true, err
	f.wakeAll()
}

// add appends a frame to the ring and removes the oldest ones above the limits.
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
	f.liveCount += int64(frame.Dropped)
	f.textSoFar.apply(frame)
	if p.kind == "" {
		return nil // the frame only reports dropped frames
	}
	if p.seq == 0 {
		f.liveCount++
	}
	p.liveCount = f.liveCount
	f.ring, f.bytes = append(f.ring, p), f.bytes+p.size
	for len(f.ring) > 1 && (len(f.ring) > ringFrames || f.bytes > ringBytes) {
		old := f.ring[0]
		f.ring[0] = nil // allow garbage collection
		f.ring, f.first, f.bytes = f.ring[1:], f.first+1, f.bytes-old.size
		f.base = max(f.base, old.seq)
	}
	f.wakeAll()
	return nil
}

// take returns the next pieces, at most as many as can be written quickly. behind reports that the
// ring starts after p: the caller must read the events in between from the journal. ended reports
// that no more frames follow.
func (f *feed) take(p *feedPosition) (some []takenFrame, behind, ended bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	end := f.first + int64(len(f.ring))
	if p.nextPiece < f.first {
		if p.afterSeq < f.base {
			p.nextPiece, p.needsTextSoFar = -1, true
			return nil, true, false
		}
		p.nextPiece = f.first
	}
	for size := 0; p.nextPiece < end && len(some) < takeFrames && size < takeBytes; p.nextPiece++ {
		one := takenFrame{piece: f.ring[p.nextPiece-f.first]}
		switch {
		case one.seq > p.afterSeq:
			p.afterSeq = one.seq
		case one.seq == 0 && p.nextPiece >= p.shownLives && p.needsTextSoFar && one.kind == kindDelta:
			p.liveCount = one.liveCount // already contained in the text so far
			continue
		case one.seq == 0 && p.nextPiece >= p.shownLives:
			one.dropped, p.liveCount = one.liveCount-p.liveCount-1, one.liveCount
		default:
			continue
		}
		some, size = append(some, one), size+one.size
	}
	p.shownLives = max(p.shownLives, p.nextPiece)
	if p.needsTextSoFar && p.nextPiece == end {
		p.needsTextSoFar = false
		if soFar := f.textSoFar.piece(); soFar != nil {
			some = append(some, takenFrame{piece: soFar})
		}
	}
	return some, false, f.ended && p.nextPiece == end
}

// coveredAfter returns the seq after which the ring holds all events.
func (f *feed) coveredAfter() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.base
}

// eventCache caches events for clients that are behind. Many clients that continue at the same
// event, as after a restart, read it once, and clients that are slow to receive the same large
// event share one copy. Safe for concurrent use.
type eventCache struct {
	engine engine.Journal
	reads  chan struct{} // limits concurrent reads, and so their memory
	mu     sync.Mutex
	open   map[eventKey]*cachedEvent // guarded by mu
	idle   queue.List                // guarded by mu; of *old without users, least recently released first
	bytes  int                       // guarded by mu; size of the idle entries
}

const (
	eventCacheReads = 2       // concurrent reads
	eventCacheBytes = 4 << 20 // bytes of idle entries kept for reuse
	// Maximum age of an idle entry: a deleted session may be imported again with other events.
	eventCacheTime = time.Second
)

type eventKey struct {
	session perdure.SessionID
	seq     int64
}

// cachedEvent is a cached event. piece and err may be read after ready is closed.
type cachedEvent struct {
	key   eventKey
	users int            // guarded by the mu of the cache
	idle  *queue.Element // guarded by the mu of the cache; nil: in use
	since time.Time      // guarded by the mu of the cache; when the last user released it
	ready chan struct{}
	piece *piece
	err   error
}

// get returns the event of a seq, from the cache if possible. If err is nil, the caller must call
// release.
func (o *eventCache) get(ctx context.Context, key eventKey) (p *piece, release func(), err error) {
	one, known := o.entry(key)
	if !known {
		one.piece, one.err = o.read(context.WithoutCancel(ctx), key) // other clients wait for it, too
		close(one.ready)
	}
	<-one.ready
	if one.err != nil {
		o.release(one)
		return nil, nil, one.err
	}
	return one.piece, func() { o.release(one) }, nil
}

// entry counts a user of an event. If known is false, the caller must read it.
func (o *eventCache) entry(key eventKey) (one *cachedEvent, known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if one, known = o.open[key]; known && one.idle != nil {
		o.evict(one)
		if known = time.Since(one.since) < eventCacheTime; known {
			o.open[key] = one
		}
	}
	if !known {
		one = &cachedEvent{key: key, ready: make(chan struct{})}
		o.open[key] = one
	}
	one.users++
	return one, known
}

// evict removes an idle entry. The caller holds the mutex.
func (o *eventCache) evict(one *cachedEvent) {
	o.bytes -= one.piece.size
	o.idle.Remove(one.idle)
	one.idle = nil
	delete(o.open, one.key)
}

// release ends what enter started. Entries without users stay in the cache while there is space.
func (o *eventCache) release(one *cachedEvent) {
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
		oldest := front.Value.(*cachedEvent) // the list holds only *old
		if o.bytes <= eventCacheBytes && time.Since(oldest.since) < eventCacheTime {
			return
		}
		o.evict(oldest)
	}
}

func (o *eventCache) read(ctx context.Context, key eventKey) (*piece, error) {
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
