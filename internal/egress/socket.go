package egress

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// Socket returns a client for the HTTP server behind a Unix socket, at an absolute path. The client
// connects to that socket whatever the URL of a request says, follows no redirects and keeps no
// cookies. It has no timeout, so that streams can run for any time; give each request a context
// that ends. Release the client with CloseIdleConnections.
//
// The owner and mode of the socket file decide who may open it; the lists and the guard of this
// package do not apply.
func Socket(path string) *http.Client {
	dialer := &net.Dialer{}
	return &http.Client{
		Transport: &http.Transport{
			Proxy: nil, // proxies from the environment are ignored (EG4)
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, "unix", path)
			},
			DisableCompression:     true, // would only cost time on one machine
			IdleConnTimeout:        idleTimeout,
			MaxIdleConnsPerHost:    8,
			MaxResponseHeaderBytes: maxHeaderBytes,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// datagramTimeout is how long a datagram may wait for room in the queue of its receiver.
const datagramTimeout = time.Second

// SendDatagram sends one datagram to a Unix socket on this machine, such as that of a service
// manager. A path that begins with @ names an abstract socket.
func SendDatagram(ctx context.Context, path, text string) error {
	ctx, cancel := context.WithTimeout(ctx, datagramTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unixgram", path)
	if err != nil {
		return err
	}
	until, _ := ctx.Deadline()
	err = conn.SetWriteDeadline(until)
	if err == nil {
		_, err = conn.Write([]byte(text))
	}
	return errors.Join(err, conn.Close())
}

// DialSocket connects to a Unix socket that does not speak HTTP. As for Socket, only the owner and
// mode of the file decide who may open it.
func DialSocket(ctx context.Context, path string) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, "unix", path)
}
