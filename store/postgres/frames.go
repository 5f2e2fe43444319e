package postgres

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// Frames go to other processes only while one of them watches. The publisher asks when it begins,
// and a process that begins to watch says so without being asked. While frames arrive, a watching
// process repeats it.
const (
	// answerLimit is how long frames are kept for the first answer.
	answerLimit = 10 * time.Second
	// watchRenewal is how often a process that receives frames repeats that it watches.
	watchRenewal = 5 * time.Second
	// watchLifetime is how long a process is assumed to watch since it last said so.
	watchLifetime = 3 * watchRenewal
	// framePause is the time between two notifications with frames of one session. With
	// maxPayloadBytes it limits a session to about 150 KB/s.
	framePause = 50 * time.Millisecond
	// maxRelayBytes limits the frames of a session that wait to be sent. If there are more, the
	// oldest are dropped.
	maxRelayBytes = 64 << 10
	// relayIdle is the time after which a session counts as no longer published.
	relayIdle = time.Minute
)

// wireFrame is a frame as it is sent to other processes: JSON in one line.
type wireFrame struct {
	Type    string          `json:"type"`
	Data    json.RawMessage `json:"data,omitempty"`
	Dropped int             `json:"dropped,omitempty"` // frames before this one that were not sent
}

// relay is what one process publishes of one session, for watchers in other processes. The lock of
// its outbox guards it.
type relay struct {
	askedAt      time.Time
	watchedUntil time.Time // another process watches until then
	usedAt       time.Time
	dueAt        time.Time // when the next notification may be sent

	queue      []wireFrame // oldest first
	queueBytes int
	rest       string // of the frame of which the start was sent
	dropped    int    // frames dropped since the last one in queue
}

// publish adds a frame for other processes, and reports whether it is the first of its session.
func (o *outbox) publish(frame store.Frame, now time.Time) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.relays[frame.Session]
	if r == nil {
		r, first = &relay{askedAt: now}, true // the listener asks, once it can hear the answer
		o.relays[frame.Session] = r
	}
	r.usedAt = now
	if !now.Before(r.watchedUntil) && now.Sub(r.askedAt) >= watchLifetime {
		r.askedAt = now
		o.addLocked(whoWatches, frame.Session)
	}
	if !now.Before(r.keepUntil()) {
		return first // no other process watches
	}
	r.add(frame)
	if !r.isEmpty() {
		o.waiting[frame.Session] = r
		o.signal()
	}
	return first
}

// keepUntil is the time until which frames are kept: somebody watches, or may answer.
func (r *relay) keepUntil() time.Time {
	if answered := r.askedAt.Add(answerLimit); answered.After(r.watchedUntil) {
		return answered
	}
	return r.watchedUntil
}

// add adds a frame to the queue. A frame that cannot be encoded is dropped.
func (r *relay) add(frame store.Frame) {
	var data json.RawMessage
	if frame.Data != nil {
		var err error
		if data, err = json.Marshal(frame.Data); err != nil || len(data) > maxRelayBytes {
			r.dropped++
			return
		}
	}
	r.queue = append(r.queue, wireFrame{Type: frame.Type, Data: data, Dropped: r.dropped})
	r.queueBytes += len(data)
	for r.dropped = 0; r.queueBytes > maxRelayBytes; {
		oldest := r.queue[0]
		r.queue = r.queue[1:]
		r.queueBytes -= len(oldest.Data)
		r.queue[0].Dropped += oldest.Dropped + 1
	}
}

func (r *relay) isEmpty() bool { return len(r.queue) == 0 && r.rest == "" }

// take returns the next notification, of at most limit bytes of frames, if one is due.
func (r *relay) take(now time.Time, limit int) (n notification, ok bool) {
	switch {
	case now.Before(r.dueAt):
		return n, false
	case now.Before(r.watchedUntil):
	case now.Before(r.keepUntil()):
		r.dueAt = r.keepUntil()
		return n, false
	default:
		r.clear() // nobody watches
		return n, false
	}
	r.dueAt = now.Add(framePause)
	n.kind = firstFrames
	if r.rest != "" {
		n.kind = continueFrames
	}
	var text strings.Builder
	for text.Len() < limit && !r.isEmpty() {
		if r.rest == "" {
			r.rest = r.next()
			continue
		}
		end := cut(r.rest, limit-text.Len())
		text.WriteString(r.rest[:end])
		if r.rest = r.rest[end:]; r.rest != "" {
			break
		}
	}
	n.text = text.String()
	return n, n.text != ""
}

// next removes the oldest frame from the queue and returns its line.
func (r *relay) next() string {
	frame := r.queue[0]
	r.queue = r.queue[1:]
	r.queueBytes -= len(frame.Data)
	line, _ := json.Marshal(frame) // Data is JSON
	return string(line) + "\n"
}

// cut returns the length of the longest prefix of at most limit bytes that ends with a character.
func cut(text string, limit int) int {
	if len(text) <= limit {
		return len(text)
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return limit
}

// clear drops what waits.
func (r *relay) clear() { r.queue, r.queueBytes, r.rest, r.dropped = nil, 0, "", 0 }

// heard notes that another process watches a session.
func (o *outbox) heard(id perdure.SessionID, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.relays[id]
	if r == nil {
		return
	}
	if !now.Before(r.watchedUntil) {
		r.dueAt = now // frames may wait for this answer
	}
	r.watchedUntil = now.Add(watchLifetime)
	o.signal()
}

// abandon notes that notifications were not sent, or may not have been: the frames that they began
// are not continued.
func (o *outbox) abandon(batch []notification) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range batch {
		if r := o.relays[n.session]; r != nil && n.text != "" {
			r.rest = ""
		}
	}
}

// forgetIdle forgets the sessions that are no longer published, and returns them.
func (o *outbox) forgetIdle(now time.Time) (ids []perdure.SessionID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, r := range o.relays {
		if now.Sub(r.usedAt) >= relayIdle && r.isEmpty() {
			delete(o.relays, id)
			ids = append(ids, id)
		}
	}
	return ids
}

// Publish sends an ephemeral frame to the watchers of its session, in this process and in others.
// Watchers in others get its Data as a json.RawMessage.
func (s *Store) Publish(frame store.Frame) {
	s.hub.Publish(frame)
	if isNotifiable(frame.Session) && s.outbox.publish(frame, time.Now()) {
		s.subscriptions.setPublished(frame.Session, true)
	}
}

// forgetIdleRelays stops listening to sessions that are no longer published here.
func (s *Store) forgetIdleRelays() {
	for _, id := range s.outbox.forgetIdle(time.Now()) {
		s.subscriptions.setPublished(id, false)
	}
}

// frameReader puts together the frames that arrive in notifications. The zero value is ready. Only
// the listener uses it.
type frameReader struct {
	partial map[source]string // the start of a frame that continues
}

// source is where frames come from.
type source struct {
	session perdure.SessionID
	origin  string
}

// read returns the frames that a notification completes.
func (r *frameReader) read(n notification, origin string) (found []store.Frame) {
	from := source{session: n.session, origin: origin}
	start, known := r.partial[from]
	delete(r.partial, from)
	text := n.text
	switch {
	case n.kind == firstFrames:
	case known:
		text = start + text
	default: // the start was lost
		_, text, _ = strings.Cut(text, "\n")
	}
	for {
		line, rest, whole := strings.Cut(text, "\n")
		if !whole {
			break
		}
		text = rest
		var frame wireFrame
		if perdure.DecodeKnownJSON([]byte(line), &frame) != nil {
			continue
		}
		got := store.Frame{Session: n.session, Type: frame.Type, Dropped: frame.Dropped}
		if frame.Data != nil {
			got.Data = frame.Data
		}
		found = append(found, got)
	}
	if text != "" && len(text) <= 2*maxRelayBytes {
		if r.partial == nil {
			r.partial = map[source]string{}
		}
		r.partial[from] = text
	}
	return found
}

// forget forgets the frames of a session that are not complete.
func (r *frameReader) forget(id perdure.SessionID) {
	for from := range r.partial {
		if from.session == id {
			delete(r.partial, from)
		}
	}
}
