package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// patience is the time limit for a response, or for the end of a connection.
const patience = 30 * time.Second

// raw is a connection with hand-written requests: a client of net/http would cost more than a
// server that refuses.
type raw struct {
	net.Conn
	in *bufio.Reader
}

func (s *server) dial() (*raw, error) {
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(s.url, "http://"), patience)
	if err != nil {
		return nil, err
	}
	return &raw{conn, bufio.NewReaderSize(conn, 2<<10)}, nil
}

// request returns the text of a request.
func (s *server) request(method, path, body string) []byte {
	kind := ""
	if body != "" {
		kind = "Content-Type: application/json\r\n"
	}
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: load\r\nAuthorization: Bearer %s\r\n%sContent-Length: %d\r\n\r\n%s", method, path, s.token, kind, len(body), body)
}

// ask writes a request and reads the response. again reports whether the connection can be reused.
func (c *raw) ask(request []byte) (status int, header http.Header, again bool, err error) {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return 0, nil, false, err
	}
	if _, err := c.Write(request); err != nil {
		return 0, nil, false, err
	}
	return c.answer()
}

func (c *raw) answer() (status int, header http.Header, again bool, err error) {
	answer, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, nil, false, err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, answer.Header, !answer.Close, errors.Join(err, answer.Body.Close())
}
