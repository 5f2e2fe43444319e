//go:build !live

package program

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	enums "go.temporal.io/api/enums/v1"
	namespace "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/serviceerror"
	workflow "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const simulated = true

// server is what setup and doctor use of a Temporal server.
type server struct {
	workflowservice.UnimplementedWorkflowServiceServer
	key   string // empty: none is needed
	deny  bool
	mu    sync.Mutex
	known map[string]bool // namespaces; guarded by mu
}

// startServer starts a simulated server that ends with the script.
func startServer(ts *testscript.TestScript, key, deny bool) string {
	s := &server{deny: deny, known: map[string]bool{"default": true}}
	if key {
		s.key = apiKey
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	g := grpc.NewServer(grpc.UnaryInterceptor(s.authorize))
	workflowservice.RegisterWorkflowServiceServer(g, s)
	ts.Defer(g.Stop)
	go func() { _ = g.Serve(l) }() // it ends with Stop
	return l.Addr().String()
}

// authorize refuses a request without the key, and turns errors into those of Temporal.
func (s *server) authorize(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if had := metadata.ValueFromIncomingContext(ctx, "authorization"); s.key != "" && (len(had) != 1 || had[0] != "Bearer "+s.key) {
		return nil, status.Error(codes.Unauthenticated, "no such key")
	}
	answer, err := handle(ctx, req)
	if err != nil {
		return nil, serviceerror.ToStatus(err).Err()
	}
	return answer, nil
}

// find returns an error for a namespace that is not registered.
func (s *server) find(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known[name] {
		return serviceerror.NewNamespaceNotFound(name)
	}
	return nil
}

func (s *server) GetSystemInfo(context.Context, *workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{ServerVersion: "1.32.1", Capabilities: &workflowservice.GetSystemInfoResponse_Capabilities{}}, nil
}

func (s *server) DescribeNamespace(_ context.Context, r *workflowservice.DescribeNamespaceRequest) (*workflowservice.DescribeNamespaceResponse, error) {
	return &workflowservice.DescribeNamespaceResponse{NamespaceInfo: &namespace.NamespaceInfo{Name: r.GetNamespace()}}, s.find(r.GetNamespace())
}

func (s *server) RegisterNamespace(_ context.Context, r *workflowservice.RegisterNamespaceRequest) (*workflowservice.RegisterNamespaceResponse, error) {
	if s.deny {
		return nil, serviceerror.NewPermissionDenied("not an administrator", "")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[r.GetNamespace()] {
		return nil, serviceerror.NewNamespaceAlreadyExists("it exists")
	}
	s.known[r.GetNamespace()] = true
	return &workflowservice.RegisterNamespaceResponse{}, nil
}

func (s *server) ListOpenWorkflowExecutions(_ context.Context, r *workflowservice.ListOpenWorkflowExecutionsRequest) (*workflowservice.ListOpenWorkflowExecutionsResponse, error) {
	return &workflowservice.ListOpenWorkflowExecutionsResponse{}, s.find(r.GetNamespace())
}

func (s *server) StartWorkflowExecution(_ context.Context, r *workflowservice.StartWorkflowExecutionRequest) (*workflowservice.StartWorkflowExecutionResponse, error) {
	return &workflowservice.StartWorkflowExecutionResponse{RunId: "run", Started: true}, s.find(r.GetNamespace())
}

func (s *server) DescribeWorkflowExecution(_ context.Context, r *workflowservice.DescribeWorkflowExecutionRequest) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	if !strings.HasSuffix(r.GetExecution().GetWorkflowId(), "/doctor") {
		return nil, serviceerror.NewNotFound("no such workflow")
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{
		Execution: r.GetExecution(), StartTime: timestamppb.New(time.Now()), Status: enums.WORKFLOW_EXECUTION_STATUS_RUNNING,
	}}, nil
}

func (s *server) TerminateWorkflowExecution(context.Context, *workflowservice.TerminateWorkflowExecutionRequest) (*workflowservice.TerminateWorkflowExecutionResponse, error) {
	return &workflowservice.TerminateWorkflowExecutionResponse{}, nil
}

func (s *server) DescribeTaskQueue(context.Context, *workflowservice.DescribeTaskQueueRequest) (*workflowservice.DescribeTaskQueueResponse, error) {
	return &workflowservice.DescribeTaskQueueResponse{}, nil
}
