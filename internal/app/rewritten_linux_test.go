package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// rewriter proxies the holder of a data directory, and changes its responses.
type rewriter struct {
	data   string
	ask    func(r *http.Request)                 // changes a request; nil: unchanged
	answer func(path string, value any) any      // changes the JSON of a response, and of each event of a stream
	bytes  func(path string, body []byte) []byte // changes other responses; nil: unchanged
}

// serve returns the URL.
func (w rewriter) serve(t *testing.T) string {
	t.Helper()
	socket := filepath.Join(w.data, "perdure.sock")
	way := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	proxy := &httputil.ReverseProxy{
		Transport: way, FlushInterval: -1, ModifyResponse: w.rewrite,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "perdure"
			r.Out.Header.Del("Accept-Encoding")
			if w.ask != nil {
				w.ask(r.Out)
			}
		},
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		way.CloseIdleConnections()
	})
	return server.URL
}

// rewrite changes one response.
func (w rewriter) rewrite(r *http.Response) error {
	path, kind := r.Request.URL.Path, r.Header.Get("Content-Type")
	if strings.HasPrefix(kind, "text/event-stream") {
		from := r.Body
		to, into := io.Pipe()
		r.Body = to
		go func() { // it ends with the response, or with its reader
			defer from.Close()
			lines := bufio.NewReader(from)
			for {
				line, err := lines.ReadBytes('\n')
				if data, is := bytes.CutPrefix(line, []byte("data: ")); is && err == nil {
					line = append([]byte("data: "), append(w.json(path, data), '\n')...)
				}
				if _, gone := into.Write(line); gone != nil || err != nil {
					_ = into.CloseWithError(err)
					return
				}
			}
		}()
		return nil
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	_ = r.Body.Close()
	switch {
	case strings.Contains(kind, "json"):
		text = w.json(path, text)
	case w.bytes != nil:
		text = w.bytes(path, text)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	r.Header.Set("Content-Length", strconv.Itoa(len(text)))
	return nil
}

// json changes a JSON text. Other text stays unchanged.
func (w rewriter) json(path string, text []byte) []byte {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil {
		return text
	}
	changed, err := json.Marshal(w.answer(path, value))
	if err != nil {
		return text
	}
	return changed
}
