package cli

import (
	"context"
	"crypto/subtle"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// browserTime limits how long a browser may take to send its request, and a command to answer it.
const browserTime = 10 * time.Second

// browserReturn waits on this machine for the browser of the user, which a service sends back after
// an authorization.
type browserReturn struct {
	url      string
	listener net.Listener
	server   *http.Server
	answers  chan engine.ConnectionAnswer // capacity 1: only the first answer counts
	ended    chan struct{}                // closed when the server has ended
	state    atomic.Pointer[string]       // nil: not known yet, so no request is the answer
}

// listenForBrowser listens on a free port of the loopback address.
func listenForBrowser() (*browserReturn, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("%w: listen for the browser: %w", perdure.Unavailable, err)
	}
	b := &browserReturn{url: "http://" + listener.Addr().String() + "/callback", listener: listener,
		answers: make(chan engine.ConnectionAnswer, 1), ended: make(chan struct{})}
	b.server = &http.Server{Handler: http.HandlerFunc(b.answer), ReadHeaderTimeout: browserTime, WriteTimeout: browserTime}
	go func() { // ends with close
		defer close(b.ended)
		_ = b.server.Serve(listener) // it returns why it ended, which close has caused
	}()
	return b, nil
}

// answer takes the request of the browser. A request with another state is not the answer: any page
// could make a browser send one.
func (b *browserReturn) answer(w http.ResponseWriter, r *http.Request) {
	state := ""
	if known := b.state.Load(); known != nil {
		state = *known
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Referrer-Policy", "no-referrer")
	q := r.URL.Query()
	if r.Method != http.MethodGet || r.URL.Path != "/callback" || state == "" || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) != 1 {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "This is not the answer that perdure is waiting for.\n")
		return
	}
	select {
	case b.answers <- engine.ConnectionAnswer{State: state, Code: q.Get("code"), Error: q.Get("error")}:
	default: // it was given before
	}
	_, _ = io.WriteString(w, "You can close this page and go back to the terminal.\n")
}

// expect says of which authorization the answer is. It is called before anybody learns the address
// to open: a browser may be back at once.
func (b *browserReturn) expect(begun engine.ConnectionFlow) { b.state.Store(&begun.State) }

// wait waits for the expected answer.
func (b *browserReturn) wait(ctx context.Context, begun engine.ConnectionFlow) (answer engine.ConnectionAnswer, err error) {
	late := time.NewTimer(time.Until(begun.ExpiresAt))
	defer late.Stop()
	select {
	case answer = <-b.answers:
		return answer, nil
	case <-late.C:
		return answer, &userError{err: perdure.Unavailable, message: "nobody authorized within ten minutes; nothing was changed",
			hint: "run the command again, and open the address that it prints"}
	case <-ctx.Done():
		return answer, context.Cause(ctx)
	}
}

// close stops listening. A response that is being written is completed first.
func (b *browserReturn) close() {
	ctx, cancel := context.WithTimeout(context.Background(), browserTime)
	defer cancel()
	if b.server.Shutdown(ctx) != nil {
		_ = b.server.Close()
	}
	<-b.ended
}
