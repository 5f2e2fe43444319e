package egress

import (
	"context"
	"net"
	"net/http"
)

// Socket returns a client for the HTTP server behind a Unix socket of this machine, at an absolute path. It
// reaches that socket whatever the URL of a request says, follows no redirect, and keeps no cookies. Streams
// may run as long as they like: it has no timeout of its own, so give each request a context that ends. Give
// the client back with CloseIdleConnections.
//
// A socket is a file, and its owner and mode say who may open it; no list or guard of this package has a part
// in it.
func Socket(path string) *http.Client {
	dialer := &net.Dialer{}
	return &http.Client{
		Transport: &http.Transport{
			Proxy: nil, // the environment's proxies are not asked (EG4)
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, "unix", path)
			},
			DisableCompression:     true, // it would only cost time on one machine
			IdleConnTimeout:        idleTimeout,
			MaxIdleConnsPerHost:    8,
			MaxResponseHeaderBytes: maxHeaderBytes,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// DialSocket connects to a Unix socket, for what speaks no HTTP there. Of it, too, its owner and mode say who may open it.
func DialSocket(ctx context.Context, path string) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, "unix", path)
}
