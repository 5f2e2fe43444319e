package program

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/perdure/perdure/internal/app"
)

// wipeTime is how long Temporal may take to delete the workflows of a run.
const wipeTime = 2 * time.Minute

// openChaos connects the servers of a chaos run to Temporal, with a prefix of their own, through a
// proxy that can be cut.
func (o *options) openChaos() (app.ChaosScheduler, error) {
	c, settings, err := o.dial(nil)
	if err != nil {
		return nil, err
	}
	s := &chaosScheduler{client: c, settings: settings, prefix: "chaos-" + strings.ToLower(rand.Text()[:8]), live: map[net.Conn]bool{}}
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		c.Close()
		return nil, fmt.Errorf("open a proxy to Temporal: %w", err)
	}
	s.pipes.Go(s.accept)
	return s, nil
}

// chaosScheduler is Temporal for the servers of a chaos run.
type chaosScheduler struct {
	client   client.Client // not through the proxy
	settings client.Options
	prefix   string
	listener net.Listener
	pipes    sync.WaitGroup

	mu   sync.Mutex
	cut  bool              // guarded by mu
	live map[net.Conn]bool // guarded by mu: the connections of the servers, and those to Temporal
}

// Environ returns the variables with which a server uses Temporal through the proxy.
func (s *chaosScheduler) Environ() []string {
	host, _, err := net.SplitHostPort(s.settings.HostPort)
	if err != nil {
		host = s.settings.HostPort
	}
	env := []string{"TEMPORAL_ADDRESS=" + s.listener.Addr().String(), "TEMPORAL_NAMESPACE=" + s.settings.Namespace,
		"PERDURE_TEMPORAL_PREFIX=" + s.prefix}
	if tls := s.settings.ConnectionOptions.TLS; tls != nil && tls.ServerName == "" {
		env = append(env, "TEMPORAL_TLS_SERVER_NAME="+host)
	}
	return env
}

// Cut ends all connections to Temporal and refuses new ones.
func (s *chaosScheduler) Cut() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = true
	for conn := range s.live {
		_ = conn.Close() // the pipe notices it
	}
	return nil
}

// Restore lets connections through again.
func (s *chaosScheduler) Restore() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = false
	return nil
}

// Wipe deletes the workflows of the run, running or not.
func (s *chaosScheduler) Wipe() error {
	ctx, stop := context.WithTimeout(context.Background(), wipeTime)
	defer stop()
	service := s.client.WorkflowService()
	list := &workflowservice.ListWorkflowExecutionsRequest{Namespace: s.settings.Namespace, PageSize: 500,
		Query: fmt.Sprintf("WorkflowId STARTS_WITH %q", s.prefix+"/")}
	for {
		page, err := service.ListWorkflowExecutions(ctx, list)
		if err != nil {
			return fmt.Errorf("list the workflows: %w", err)
		}
		for _, w := range page.GetExecutions() {
			_, err := service.DeleteWorkflowExecution(ctx, &workflowservice.DeleteWorkflowExecutionRequest{
				Namespace: s.settings.Namespace, WorkflowExecution: w.GetExecution(),
			})
			var gone *serviceerror.NotFound
			if err != nil && !errors.As(err, &gone) {
				return fmt.Errorf("delete a workflow: %w", err)
			}
		}
		if list.NextPageToken = page.GetNextPageToken(); len(list.NextPageToken) == 0 {
			return nil
		}
	}
}

// Close deletes the workflows of the run, and ends all connections.
func (s *chaosScheduler) Close() error {
	err := errors.Join(s.Wipe(), s.Cut(), s.listener.Close())
	s.pipes.Wait()
	s.client.Close()
	return err
}

func (s *chaosScheduler) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.pipes.Go(func() { s.pipe(conn) })
	}
}

// pipe copies between a server and Temporal, until one of them ends or the connection is cut.
func (s *chaosScheduler) pipe(conn net.Conn) {
	defer conn.Close()
	to, err := net.DialTimeout("tcp", s.settings.HostPort, reachTime)
	if err != nil {
		return // the server tries again
	}
	defer to.Close()
	if !s.keep(conn, to) {
		return
	}
	defer s.forget(conn, to)
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(to, conn) // the end of one direction ends the other
		_ = to.Close()
	}()
	_, _ = io.Copy(conn, to)
	_ = conn.Close()
	<-back
}

// keep notes connections for a cut. False: they are cut already.
func (s *chaosScheduler) keep(conns ...net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut {
		return false
	}
	for _, conn := range conns {
		s.live[conn] = true
	}
	return true
}

func (s *chaosScheduler) forget(conns ...net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range conns {
		delete(s.live, conn)
	}
}
