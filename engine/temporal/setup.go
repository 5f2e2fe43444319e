package temporal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/log"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/perdure/perdure"
)

// retention is how long Temporal keeps the histories of completed workflows. The store has the
// record of the work, so they serve to look at the scheduling only.
const retention = 72 * time.Hour

// connectTime is how long a connection to Temporal may take.
const connectTime = 10 * time.Second

// DialOptions say how to reach Temporal. What they leave out comes from the environment and from
// Temporal's configuration file: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY,
// TEMPORAL_TLS_* and TEMPORAL_PROFILE, as Temporal's own command line reads them.
type DialOptions struct {
	Address   string
	Namespace string
	Identity  string // of this process, as Temporal shows it; ids only
	Log       log.Logger
}

// Dial returns a client. It does not connect: the first call does. Invalid: the environment or the
// configuration file cannot be read.
func Dial(o DialOptions) (client.Client, client.Options, error) {
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return nil, options, fmt.Errorf("%w settings of Temporal: %w: correct TEMPORAL_… in the environment, or the "+
			"file that TEMPORAL_CONFIG_FILE names", perdure.Invalid, err)
	}
	if o.Address != "" {
		options.HostPort = o.Address
	}
	if o.Namespace != "" {
		options.Namespace = o.Namespace
	}
	if options.HostPort == "" {
		options.HostPort = client.DefaultHostPort
	}
	if options.Namespace == "" {
		options.Namespace = client.DefaultNamespace
	}
	options.Identity, options.Logger = o.Identity, o.Log
	c, err := client.NewLazyClient(options)
	if err != nil {
		return nil, options, fmt.Errorf("%w settings of Temporal: %w", perdure.Invalid, err)
	}
	return c, options, nil
}

// Setup registers a namespace, and waits until it can be used. Nothing is changed if it exists; the
// result says whether it was registered. Denied: this client may not; the error says
// what an administrator has to do.
func Setup(ctx context.Context, c client.Client, namespace string) (registered bool, err error) {
	service := c.WorkflowService()
	first, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	_, err = service.RegisterNamespace(first, &workflowservice.RegisterNamespaceRequest{
		Namespace: namespace, WorkflowExecutionRetentionPeriod: durationpb.New(retention),
		Description: "Perdure: schedules sessions and tasks",
	})
	var exists *serviceerror.NamespaceAlreadyExists
	var denied *serviceerror.PermissionDenied
	var unimplemented *serviceerror.Unimplemented
	switch {
	case err == nil:
		registered = true
	case errors.As(err, &exists):
	case errors.As(err, &denied), errors.As(err, &unimplemented):
		// Temporal Cloud refuses it also where the namespace exists.
		if _, known := service.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace}); known == nil {
			return false, nil
		}
		return false, fmt.Errorf("%w: register namespace %s: %w: have an administrator of Temporal register it, and keep "+
			"histories for %s", perdure.Denied, namespace, err, retention)
	default:
		return false, fmt.Errorf("%w: register namespace %s: %w: check that Temporal runs at the address that you gave",
			perdure.Unavailable, namespace, err)
	}
	return registered, usable(ctx, c, namespace)
}

// usable waits until every part of the server knows a namespace that was just registered: they read
// the list of namespaces every few seconds.
func usable(ctx context.Context, c client.Client, namespace string) error {
	for {
		_, err := c.WorkflowService().ListOpenWorkflowExecutions(ctx, &workflowservice.ListOpenWorkflowExecutionsRequest{
			Namespace: namespace, MaximumPageSize: 1,
		})
		var missing *serviceerror.NamespaceNotFound
		if !errors.As(err, &missing) {
			if err != nil {
				return fmt.Errorf("%w: use namespace %s: %w", perdure.Unavailable, namespace, err)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: namespace %s is registered, but cannot be used yet: try again in some seconds",
				perdure.Unavailable, namespace)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
