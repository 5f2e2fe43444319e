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
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/perdure/perdure"
)

// BrokerConfig is the configuration of a broker: its MCP server, and the socket for clients.
type BrokerConfig struct {
	Name    string   // of the server, for the log; may be empty
	Socket  string   // path of a socket that only its owner may open
	Command []string // the command of the server on stdio
	// Linger is how long the server runs without a client while calls are running or have answers
	// that were not fetched; 0: 24 h. Otherwise it ends after some seconds.
	Linger time.Duration
	// Time for the server to exit after its input is closed, before it is killed; 0: 10 s.
	Stop time.Duration
	Log  *slog.Logger // nil: discarded
}

// idleTime is how long a broker with nothing to wait for waits for the next client.
const idleTime = 10 * time.Second

// fetchTime is how long an answer is kept after it was written to a client, which may have crashed
// before it stored the answer.
const fetchTime = 10 * time.Minute

// greeting is the first line sent to a client.
type greeting struct {
	Broker serverStart `json:"broker"`
}

// serverStart identifies the running server process.
type serverStart struct {
	At      time.Time `json:"born"`
	Dropped int       `json:"dropped,omitempty"` // number of server messages dropped since the last client
}

// endMethod asks a broker to end if no call is running.
const endMethod = "broker/end"

// RunBroker runs an MCP server as its broker, so that the client may crash or restart. Calls
// continue, their answers are stored, and a repeated request with the same id is the same call.
// RunBroker returns when the server has exited, or is no longer needed.
//
// Messages that the server sends while no client is connected are held and delivered to the next
// client in order. The limit is 1 MiB; beyond it the oldest messages are dropped, which the log and
// the greeting of the next client report. Messages written to a client that crashed before reading
// them are lost, except the answers of calls.
//
// Requests of the server are held for the first client. After that, a request without a client is
// refused with an error, and so is one that a client left unanswered; a ping is always answered.
func RunBroker(ctx context.Context, k BrokerConfig) error {
	if len(k.Command) == 0 || k.Socket == "" {
		return fmt.Errorf("MCP broker: %w configuration: Socket and Command are required", perdure.Invalid)
	}
	if k.Linger <= 0 {
		k.Linger = 24 * time.Hour
	}
	if k.Log == nil {
		k.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.Remove(k.Socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("MCP broker: remove the old socket: %w", err)
	}
	listener, err := net.Listen("unix", k.Socket)
	if err != nil {
		return fmt.Errorf("MCP broker: listen: %w", err)
	}
	defer listener.Close()
	if err := os.Chmod(k.Socket, 0o600); err != nil {
		return fmt.Errorf("MCP broker: %w", err)
	}
	server, err := startProcess(k.Command)
	if err != nil {
		return fmt.Errorf("MCP broker: %w", err)
	}
	ctx, end := context.WithCancel(ctx)
	r := &broker{cfg: k, born: time.Now().UTC(), in: server.in, listener: listener, end: end, calls: map[jsonrpc.ID]*brokerCall{}, serverRequests: map[jsonrpc.ID]bool{}, clientLeft: time.Now()}
	var group sync.WaitGroup
	group.Go(func() { r.accept(listener) })
	group.Go(func() { r.watch(ctx) })
	group.Go(func() {
		<-ctx.Done()
		r.close()
		server.end(cmp.Or(k.Stop, defaultStop))
	})
	r.readServer(server.out)
	byItself := ctx.Err() == nil
	r.close()
	err = r.dropClient(nil)
	failed := server.wait()
	group.Wait()
	if failed != nil && byItself {
		err = errors.Join(err, fmt.Errorf("the MCP server exited: %w", failed))
	}
	return ignoreClosed(err)
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// broker is a broker: a server with the calls that it was asked to run, and their answers.
type broker struct {
	cfg  BrokerConfig
	born time.Time
	end  context.CancelFunc // ends the server; see stop

	toServer sync.Mutex
	in       io.Writer // guarded by telling, not mu: a write may block until the server's output is read

	mu           sync.Mutex
	listener     net.Listener    // guarded by mu
	stopped      bool            // guarded by mu; no further client is accepted
	client       net.Conn        // guarded by mu; nil: no client is connected
	clientLeft   time.Time       // guarded by mu; when the last client left
	initializing jsonrpc.ID      // guarded by mu; id of the initialize in progress; not valid: none
	init         json.RawMessage // guarded by mu; the result of initialize
	waits        waiting         // guarded by mu; a second initialize that waits for the first
	notified     bool            // guarded by mu; notifications/initialized was sent
	noisy        bool            // guarded by mu; the server has written something that is no message
	// Guarded by mu; keyed by decoded id, because a server may encode it differently.
	calls          map[jsonrpc.ID]*brokerCall
	greeted        bool                // guarded by mu; a client was connected before
	held           heldMessages        // guarded by mu; empty while a client is connected
	serverRequests map[jsonrpc.ID]bool // guarded by mu; server requests sent to the client and not answered
}

// brokerCall is a tool call.
type brokerCall struct {
	answer []byte // nil: running
	at     time.Time
	sent   bool // the answer was written to a client
}

// accept serves one client at a time; a new client replaces the previous one.
func (r *broker) accept(listener net.Listener) {
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
			_ = conn.Close() // the client connects to another broker
			return
		}
		before := r.client
		r.refuseAbandoned()
		r.client = conn
		r.greetClient()
		r.mu.Unlock()
		if before != nil {
			_ = before.Close() // it has crashed, or was replaced
		}
		group.Go(func() {
			r.ask(conn)
			_ = r.dropClient(conn)
		})
	}
}

// stop ends the server. From then on no client is accepted, because it would lose the server at
// once: without a socket it starts another broker. The caller holds mu.
func (r *broker) stop() {
	if !r.stopped {
		r.stopped = true
		_ = r.listener.Close() // also removes the socket
		r.end()
	}
}

// close calls stop with mu held.
func (r *broker) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stop()
}

// dropClient forgets a client; nil means the current one, whichever it is.
func (r *broker) dropClient(conn net.Conn) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client == nil || conn != nil && r.client != conn {
		return nil
	}
	client := r.client
	r.client, r.clientLeft = nil, time.Now()
	r.refuseAbandoned()
	return client.Close()
}

// send writes a line to the client. A client that fails to read it is disconnected: after a partly
// written line, the following ones would be unreadable. The caller holds mu.
func (r *broker) send(text []byte) bool {
	if r.client == nil {
		return false
	}
	_ = r.client.SetWriteDeadline(time.Now().Add(10 * time.Second))
	if _, err := r.client.Write(append(bytes.Clone(text), '\n')); err != nil {
		_ = r.client.Close() // the connection is lost anyway
		r.client, r.clientLeft = nil, time.Now()
		r.refuseAbandoned()
		return false
	}
	return true
}

// ask passes the requests of a client on to the server, each call once.
func (r *broker) ask(conn net.Conn) {
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
			r.notify(text)
		}
	}
}

// notify writes a line to the server. It must not be called with mu held.
func (r *broker) notify(text []byte) {
	r.toServer.Lock()
	defer r.toServer.Unlock()
	if _, err := r.in.Write(append(text, '\n')); err != nil {
		r.cfg.Log.Warn("write to the MCP server failed", "error", err)
	}
}

// answered answers a repeated request, and records a new one. It returns true if the message must
// not be passed on. The caller holds mu.
func (r *broker) answered(conn net.Conn, text []byte, m line) bool {
	switch m.method {
	case "": // a response; if the client has left, its request was already refused
		if r.client != conn || !r.serverRequests[m.id] {
			return true
		}
		delete(r.serverRequests, m.id)
	case "initialize":
		return r.initialize(text, m)
	case "notifications/initialized":
		before := r.notified
		r.notified = true
		return before
	case endMethod:
		// A server that has not read its first message is still starting.
		unused := onlyUnused(m.params)
		switch {
		case r.running() == 0 && r.client == conn && (!unused || len(r.calls) == 0 && !hasUnread(r.in)): // else another client has connected
			r.stop()
		case unused:
			_ = conn.Close() // the client waits for the end
		}
		return true
	case "notifications/cancelled": // a canceled call gets no answer
		if id, ok := canceledID(m.params); ok {
			delete(r.calls, id)
		}
	case "tools/call":
		known, ok := r.calls[m.id]
		if !ok {
			r.calls[m.id] = &brokerCall{at: time.Now()}
			return false
		}
		if known.answer != nil {
			known.sent = r.send(known.answer)
		}
		return true
	}
	return false
}

// onlyUnused reports whether endMethod applies only to a server that has run no call.
func onlyUnused(params json.RawMessage) bool {
	var of struct {
		Unused bool `json:"unused"`
	}
	return perdure.DecodeKnownJSON(params, &of) == nil && of.Unused
}

// running returns the number of calls without an answer. The caller holds mu.
func (r *broker) running() (n int) {
	for _, c := range r.calls {
		if c.answer == nil {
			n++
		}
	}
	return n
}

// readServer passes the messages of the server on to the client, and stores the answers of calls.
func (r *broker) readServer(out io.Reader) {
	in := bufio.NewReaderSize(out, 64<<10)
	for {
		text, err := nextLine(in)
		if err != nil && !errors.Is(err, errTooLong) {
			return
		}
		if len(trimText(text)) == 0 {
			continue
		}
		var all []message
		if err == nil {
			all, err = messagesOf(text)
		}
		if err != nil {
			r.drop(text, err)
		}
		for _, m := range all {
			r.forward(m.text, m.line)
		}
	}
}

// finishCall stores the answer of a call. The caller holds mu.
func (r *broker) finishCall(c *brokerCall, answer []byte, sent bool) {
	c.answer, c.at, c.sent = answer, time.Now(), sent
}

// drop skips a text that is no message: the first one with a warning. If it is the unreadable
// answer of a call, the call has ended with it.
func (r *broker) drop(text []byte, why error) {
	id, ok := answeredBy(text)
	r.mu.Lock()
	defer r.mu.Unlock()
	level := slog.LevelWarn
	if r.noisy && !ok {
		level = slog.LevelDebug
	}
	r.noisy = true
	r.cfg.Log.Log(context.Background(), level, "the MCP server wrote something that is no message; it is skipped", "server", cmp.Or(r.cfg.Name, r.cfg.Command[0]), "text", shown(text), "reason", why)
	if !ok {
		return
	}
	known := r.calls[id]
	switch {
	case known == nil:
		failed := map[string]any{"code": jsonrpc.CodeInternalError, "message": "the answer cannot be read: " + why.Error()}
		r.send(mustJSON(map[string]any{"jsonrpc": "2.0", "id": id.Raw(), "error": failed}))
	case known.answer == nil: // not answered by a valid one
		answer := unreadableAnswer(id, text, why)
		r.finishCall(known, answer, r.send(answer))
	}
}

// watch ends a server that is no longer needed.
func (r *broker) watch(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if r.isIdle(time.Now()) {
				return
			}
		}
	}
}

// isIdle stops a server that is no longer needed, and removes answers that will not be fetched any
// more. It reports whether the server is stopped.
func (r *broker) isIdle(now time.Time) bool {
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
	away := now.Sub(r.clientLeft)
	if away > r.cfg.Linger || !waits && away > idleTime {
		r.stop()
	}
	return r.stopped
}

// mustJSON encodes a value whose encoding cannot fail.
func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // a map of strings
	}
	return text
}
