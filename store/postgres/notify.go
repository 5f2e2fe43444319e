package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
)

// sendNotifications sends notifications in their order. They are sent outside of the transactions:
// transactions with a NOTIFY would commit one after another.
const sendNotifications = `SELECT pg_notify(channel, payload) FROM unnest($1::text[], $2::text[]) AS n (channel, payload)`

const (
	// maxBatch is the maximal number of notifications in one statement.
	maxBatch = 100
	// maxPayloadBytes is the size of the largest notification. The server accepts less than 8,000
	// bytes.
	maxPayloadBytes = 7_900
	// maxHeadBytes is more than what stands before the frames in a notification, apart from the
	// session.
	maxHeadBytes = 64
	// maxSessionBytes is the size of the longest session id in a notification. Watchers of a
	// session with a longer one find its events when they poll.
	maxSessionBytes = 1_000
)

// notificationKind is what a notification says of its session.
type notificationKind byte

const (
	journalGrew    notificationKind = 'e'
	whoWatches     notificationKind = 'q' // the sender publishes frames, and asks who watches
	senderWatches  notificationKind = 'w'
	firstFrames    notificationKind = 'f' // frames, from the start of one
	continueFrames notificationKind = 'c' // frames, from where the sender's last notification ended
)

// notification goes from one process to those that listen to its session. Each session has a
// channel of its own, so a process receives nothing about other sessions.
type notification struct {
	kind    notificationKind
	session perdure.SessionID
	text    string // frames
}

// payload returns the notification in the form in which it is sent.
func (n notification) payload(origin string) string {
	return string(rune(n.kind)) + " " + origin + " " + string(n.session) + "\n" + n.text
}

// parseNotification parses a payload.
func parseNotification(payload string) (n notification, origin string, ok bool) {
	head, text, ok := strings.Cut(payload, "\n")
	if !ok || len(head) < 2 {
		return n, "", false
	}
	origin, session, ok := strings.Cut(head[2:], " ")
	return notification{kind: notificationKind(head[0]), session: perdure.SessionID(session), text: text}, origin, ok
}

// isNotifiable reports whether notifications can name a session.
func isNotifiable(id perdure.SessionID) bool {
	return len(id) <= maxSessionBytes && isText(string(id)) && !strings.Contains(string(id), "\n")
}

// channel returns the name of a session's channel, which is a valid identifier whatever the id is.
func channel(id perdure.SessionID) string {
	sum := sha256.Sum256([]byte(id))
	return "perdure_" + hex.EncodeToString(sum[:16])
}

// outbox holds what is to be sent to other processes. It is safe for concurrent use, and none of
// its methods blocks.
type outbox struct {
	wake chan struct{} // capacity 1: one signal may cover many notifications

	mu      sync.Mutex                   // guards the fields below
	pending []notification               // without frames and without duplicates
	relays  map[perdure.SessionID]*relay // the sessions of which this process publishes frames
	waiting map[perdure.SessionID]*relay // those whose frames are not all sent
}

func newOutbox() *outbox {
	return &outbox{wake: make(chan struct{}, 1),
		relays: map[perdure.SessionID]*relay{}, waiting: map[perdure.SessionID]*relay{}}
}

// add adds a notification without frames.
func (o *outbox) add(kind notificationKind, id perdure.SessionID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.addLocked(kind, id)
}

// addLocked is add for a caller that holds mu.
func (o *outbox) addLocked(kind notificationKind, id perdure.SessionID) {
	n := notification{kind: kind, session: id}
	if isNotifiable(id) && !slices.Contains(o.pending, n) {
		o.pending = append(o.pending, n)
	}
	o.signal()
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take removes and returns what is due now. Frames come after everything else, because a frame must
// not arrive before the events that precede it. next is when further frames are due; zero: there
// are none.
func (o *outbox) take(now time.Time) (due []notification, next time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	due, o.pending = o.pending, nil
	for id, r := range o.waiting {
		if n, ok := r.take(now, maxPayloadBytes-maxHeadBytes-len(id)); ok {
			n.session = id
			due = append(due, n)
		}
		if r.isEmpty() {
			delete(o.waiting, id)
		} else if next.IsZero() || r.dueAt.Before(next) {
			next = r.dueAt
		}
	}
	return due, next
}

// startBackground starts the goroutines that run until Close: one sends notifications, one listens
// for those of other processes, and one polls in case a notification was lost.
func (s *Store) startBackground() {
	ctx, stop := context.WithCancel(context.Background())
	s.stopBackground = stop
	s.background.Go(func() { s.notifyLoop(ctx) })
	s.background.Go(func() { s.listenLoop(ctx) })
	s.background.Go(func() { s.pollLoop(ctx) })
}

// notifyLoop sends the content of the outbox until ctx ends. While notifications are being sent,
// further ones accumulate. Those that cannot be sent are lost: the other processes find the events
// when they poll, and frames may be lost.
func (s *Store) notifyLoop(ctx context.Context) {
	frames := time.NewTimer(0)
	defer frames.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.outbox.wake:
		case <-frames.C:
		}
		due, next := s.outbox.take(time.Now())
		for some := range slices.Chunk(due, maxBatch) {
			if err := s.send(ctx, some); err != nil {
				s.outbox.abandon(some)
			}
		}
		if !next.IsZero() {
			frames.Reset(time.Until(next))
		}
	}
}

// send sends notifications in one statement.
func (s *Store) send(ctx context.Context, batch []notification) error {
	ctx, stop := context.WithTimeout(ctx, s.cfg.attempt())
	defer stop()
	channels, payloads := make([]string, len(batch)), make([]string, len(batch))
	for i, n := range batch {
		channels[i], payloads[i] = channel(n.session), n.payload(s.origin)
	}
	_, err := s.readers.ExecContext(ctx, sendNotifications, channels, payloads)
	return err
}
