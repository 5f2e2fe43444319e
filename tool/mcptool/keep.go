package mcptool

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/perdure/perdure"
)

// Keeping says which MCP server is kept, and where its clients come.
type Keeping struct {
	Socket  string   // a path that only its owner may open
	Command []string // the server, on stdio
	// Linger is how long the server lives when nobody is connected, while calls run or have answers that were not yet
	// fetched; 0: 24 h. With nothing to wait for it ends after some seconds.
	Linger time.Duration
	Stop   time.Duration // for the server to end once its input is closed, after which it is killed; 0: 10 s
	Log    *slog.Logger  // nil: discarded
}

// idleTime is how long a keeper with nothing to wait for waits for the next client.
const idleTime = 10 * time.Second

// fetchTime is how long an answer is kept that was written to a client, which may have died before it kept it.
const fetchTime = 10 * time.Minute

// maxShown is how much is logged of a line that is no message, in bytes.
const maxShown = 200

// hello is the first line that a client reads.
type hello struct {
	Keeper born `json:"keeper"`
}

// born says which life of the server this is.
type born struct {
	At      time.Time `json:"born"`
	Dropped int       `json:"dropped,omitempty"` // how many messages of the server were dropped since the last client
}

// endMethod asks a keeper to end when nothing runs.
const endMethod = "keeper/end"

// Keep runs an MCP server beside its client, so that the client may die: calls go on, their answers are kept, and the same
// request again, by its id, is the same call. It returns when the server has ended, or nobody needs it any more.
//
// What the server says while no client is connected, before the first or between two, is held and delivered to the next in order: up to
// 1 MiB, past which the oldest messages are dropped; the log and the greeting of the next client say so. What was written to a client that
// died before it read is lost, but for the answers of calls. A request of the server is held for the first client. Once a client has left
// it is refused with an error, and so is one that the client left unanswered; a ping is answered.
func Keep(ctx context.Context, k Keeping) error {
	if len(k.Command) == 0 || k.Socket == "" {
		return fmt.Errorf("keep: %w configuration: Socket and Command are required", perdure.Invalid)
	}
	if k.Linger <= 0 {
		k.Linger = 24 * time.Hour
	}
	if k.Log == nil {
		k.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.Remove(k.Socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("keep: %w", err)
	}
	listener, err := net.Listen("unix", k.Socket)
	if err != nil {
		return fmt.Errorf("keep: listen: %w", err)
	}
	defer listener.Close()
	if err := os.Chmod(k.Socket, 0o600); err != nil {
		return fmt.Errorf("keep: %w", err)
	}
	server, err := startProcess(k.Command)
	if err != nil {
		return fmt.Errorf("keep: %w", err)
	}
	ctx, end := context.WithCancel(ctx)
	r := &kept{cfg: k, born: time.Now().UTC(), in: server.in, listener: listener, end: end, calls: map[jsonrpc.ID]*keptCall{}, asked: map[jsonrpc.ID]bool{}, left: time.Now()}
	var group sync.WaitGroup
	group.Go(func() { r.accept(listener) })
	group.Go(func() { r.watch(ctx) })
	group.Go(func() {
		<-ctx.Done()
		r.close()
		server.end(cmp.Or(k.Stop, defaultStop))
	})
	r.hear(server.out)
	byItself := ctx.Err() == nil
	r.close()
	err = r.leave(nil)
	failed := server.wait()
	group.Wait()
	if failed != nil && byItself {
		err = errors.Join(err, fmt.Errorf("the server ended: %w", failed))
	}
	return ignoreClosed(err)
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// kept is a server with what it was asked and answered.
type kept struct {
	cfg  Keeping
	born time.Time
	end  context.CancelFunc // the server is to end; see stop

	telling sync.Mutex
	in      io.Writer // guarded by telling: what is written to the server may wait for what it writes

	mu       sync.Mutex
	listener net.Listener             // guarded by mu
	stopped  bool                     // guarded by mu; it greets nobody any more
	client   net.Conn                 // guarded by mu; nil: nobody is connected
	left     time.Time                // guarded by mu; when the last client went
	begun    jsonrpc.ID               // guarded by mu; the id of initialize; not valid: it was not asked for
	init     json.RawMessage          // guarded by mu; its result
	waits    waiting                  // guarded by mu; who asked for it before its result
	told     bool                     // guarded by mu; that it is initialized
	calls    map[jsonrpc.ID]*keptCall // guarded by mu; by what their ids say: a server may write them in another way than it read them
	greeted  bool                     // guarded by mu; there was a client
	held     held                     // guarded by mu; empty while a client is connected
	asked    map[jsonrpc.ID]bool      // guarded by mu; the requests of the server that the client was sent and has not answered
}

// keptCall is a tool call.
type keptCall struct {
	answer []byte // nil: it runs
	at     time.Time
	sent   bool // the answer was written to a client
}

// accept serves one client after another; a new one takes the place of the one before.
func (r *kept) accept(listener net.Listener) {
	var group sync.WaitGroup
	defer group.Wait()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		if r.stopped {
			r.mu.Unlock()
			_ = conn.Close() // it finds another keeper
			return
		}
		before := r.client
		r.abandoned()
		r.client = conn
		r.greet()
		r.mu.Unlock()
		if before != nil {
			_ = before.Close() // it is dead, or another one has its name
		}
		group.Go(func() {
			r.ask(conn)
			_ = r.leave(conn)
		})
	}
}

// stop ends the server. Nobody is greeted from then on, since the server would take them with it: who comes finds no socket, and starts another
// keeper there. Whoever calls holds mu.
func (r *kept) stop() {
	if !r.stopped {
		r.stopped = true
		_ = r.listener.Close() // and its socket
		r.end()
	}
}

// close is stop for who does not hold mu.
func (r *kept) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stop()
}

// leave forgets a client; nil: whoever there is.
func (r *kept) leave(conn net.Conn) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client == nil || conn != nil && r.client != conn {
		return nil
	}
	client := r.client
	r.client, r.left = nil, time.Now()
	r.abandoned()
	return client.Close()
}

// send writes a line to the client; whoever calls holds mu. A client that takes none has left: of a line that was written in part
// nobody could read the next.
func (r *kept) send(text []byte) bool {
	if r.client == nil {
		return false
	}
	_ = r.client.SetWriteDeadline(time.Now().Add(10 * time.Second))
	if _, err := r.client.Write(append(bytes.Clone(text), '\n')); err != nil {
		_ = r.client.Close() // it is lost anyway
		r.client, r.left = nil, time.Now()
		r.abandoned()
		return false
	}
	return true
}

// ask hands the requests of a client on, each call once.
func (r *kept) ask(conn net.Conn) {
	in := bufio.NewReaderSize(conn, 64<<10)
	for {
		text, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		text = bytes.TrimSpace(text)
		m, err := readLine(text)
		if err != nil {
			continue
		}
		r.mu.Lock()
		done := r.answered(conn, text, m)
		r.mu.Unlock()
		if !done {
			r.tell(text)
		}
	}
}

// tell writes a line to the server. Nobody who does holds mu.
func (r *kept) tell(text []byte) {
	r.telling.Lock()
	defer r.telling.Unlock()
	if _, err := r.in.Write(append(text, '\n')); err != nil {
		r.cfg.Log.Warn("the server takes nothing any more", "error", err)
	}
}

// answered answers what the server was asked before, and notes what it is asked now; whoever calls holds mu.
func (r *kept) answered(conn net.Conn, text []byte, m line) bool {
	switch m.method {
	case "": // an answer; of a client that has left, the question is refused already
		if r.client != conn || !r.asked[m.id] {
			return true
		}
		delete(r.asked, m.id)
	case "initialize":
		return r.initialize(text, m)
	case "notifications/initialized":
		before := r.told
		r.told = true
		return before
	case endMethod:
		if r.running() == 0 && r.client == conn { // another one may have come meanwhile
			r.stop()
		}
		return true
	case "notifications/cancelled": // which gets no answer
		if id, ok := canceledID(m.params); ok {
			delete(r.calls, id)
		}
	case "tools/call":
		known, ok := r.calls[m.id]
		if !ok {
			r.calls[m.id] = &keptCall{at: time.Now()}
			return false
		}
		if known.answer != nil {
			known.sent = r.send(known.answer)
		}
		return true
	}
	return false
}

// running counts the calls without an answer; whoever calls holds mu.
func (r *kept) running() (n int) {
	for _, c := range r.calls {
		if c.answer == nil {
			n++
		}
	}
	return n
}

// hear hands what the server says to the client, and keeps the answers of calls.
func (r *kept) hear(out io.Reader) {
	in := bufio.NewReaderSize(out, 64<<10)
	for {
		text, err := nextLine(in)
		if err != nil && !errors.Is(err, errTooLong) {
			return
		}
		if len(text) == 0 {
			continue
		}
		var m line
		if err == nil {
			m, err = readLine(text)
		}
		if err != nil {
			r.drop(text, err)
			continue
		}
		r.pass(text, m)
	}
}

// settle stores the answer of a call; whoever calls holds mu.
func (r *kept) settle(c *keptCall, answer []byte, sent bool) {
	c.answer, c.at, c.sent = answer, time.Now(), sent
}

// drop logs what is no message, and tells nobody: the client would lose its connection over it. An answer that cannot be read ends its
// call, which would else be waited for.
func (r *kept) drop(text []byte, why error) {
	r.cfg.Log.Warn("the server says what is no message of JSON-RPC 2.0", "reason", why, "text", strings.ToValidUTF8(string(text[:min(len(text), maxShown)]), "\uFFFD"))
	id, ok := answeredBy(text)
	if !ok {
		return
	}
	answer := unreadAnswer(id, why)
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.calls[id]
	if known != nil && known.answer != nil { // by one that can be read
		return
	}
	sent := r.send(answer)
	if known != nil {
		r.settle(known, answer, sent)
	}
}

// watch ends a server that nobody needs.
func (r *kept) watch(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if r.useless(time.Now()) {
				return
			}
		}
	}
}

// useless stops a server that can go, and forgets answers that nobody will fetch.
func (r *kept) useless(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	waits := false
	for id, c := range r.calls {
		switch {
		case c.answer == nil || !c.sent:
			waits = true
		case now.Sub(c.at) < fetchTime:
			waits = true
		default:
			delete(r.calls, id)
		}
	}
	if r.client != nil {
		return false
	}
	away := now.Sub(r.left)
	if away > r.cfg.Linger || !waits && away > idleTime {
		r.stop()
	}
	return r.stopped
}

// mustJSON writes what cannot fail.
func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // a map of texts
	}
	return text
}
