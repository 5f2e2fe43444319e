package temporal

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueue "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// oldestServer is the first minor version of Temporal's server 1 that starts a workflow or uses the
// running one in a single request.
const oldestServer = 25

// mostSkew is how far the clocks of server and client may differ.
const mostSkew = 2 * time.Second

// Check is what Doctor found about one thing.
type Check struct {
	Name   string // configuration, connection, version, namespace, clock, maintenance, or a task queue
	OK     bool
	Detail string // what was found
	Fix    string // what to do; empty if OK
	// NoWorker says that it failed only because no worker runs, as before the first start.
	NoWorker bool
}

// Doctor looks at a namespace as a scheduler with this configuration would use it. Checks that need
// a connection are left out without one. It starts one small workflow, of which only the time is
// read, and terminates it.
func Doctor(ctx context.Context, c client.Client, namespace string, cfg Config) []Check {
	d := doctor{client: c, namespace: namespace, cfg: withDefaults(cfg)}
	d.names = names{d.cfg.Prefix}
	if err := check(d.cfg); err != nil {
		return []Check{{Name: "configuration", Detail: err.Error(), Fix: "Correct the prefix, or the name that the message has."}}
	}
	version, ok := d.connection(ctx)
	checks := []Check{version}
	if !ok {
		return checks
	}
	known := d.knows(ctx)
	checks = append(checks, known)
	if !known.OK {
		return checks
	}
	checks = append(checks, d.clock(ctx), d.maintenance(ctx))
	queues := []string{d.names.general()}
	if d.cfg.Home != "" {
		queues = append(queues, d.names.home(d.cfg.Home))
	}
	for _, capability := range d.cfg.Capabilities {
		queues = append(queues, d.names.queue(capability))
	}
	for _, queue := range queues {
		checks = append(checks, d.pollers(ctx, queue))
	}
	return checks
}

// doctor is one examination.
type doctor struct {
	client    client.Client
	namespace string
	cfg       Config
	names     names
}

// connection asks for the server's version. false: there is no connection.
func (d doctor) connection(ctx context.Context) (Check, bool) {
	c := Check{Name: "connection"}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	info, err := d.client.WorkflowService().GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
	if err != nil {
		c.Detail = err.Error()
		c.Fix = "Check that Temporal runs at this address, and TEMPORAL_ADDRESS, TEMPORAL_TLS_… and TEMPORAL_API_KEY."
		return c, false
	}
	c.Detail = "server " + info.GetServerVersion()
	if c.OK = recent(info.GetServerVersion()); !c.OK {
		c.Fix = fmt.Sprintf("Use a server of version 1.%d or later.", oldestServer)
	}
	return c, true
}

// recent reports whether a server's version is new enough. A version of another form is, since only
// Temporal Cloud has such.
func recent(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 3 || parts[0] != "1" {
		return true
	}
	minor, err := strconv.Atoi(parts[1])
	return err != nil || minor >= oldestServer
}

// knows looks for the namespace.
func (d doctor) knows(ctx context.Context) Check {
	c := Check{Name: "namespace"}
	found, err := d.client.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: d.namespace})
	var missing *serviceerror.NamespaceNotFound
	switch {
	case errors.As(err, &missing):
		c.Detail, c.Fix = d.namespace+" does not exist", "Run perdure-temporal setup."
	case err != nil:
		c.Detail, c.Fix = err.Error(), "Check the rights of this client in the namespace."
	default:
		c.OK = true
		c.Detail = fmt.Sprintf("%s, keeps histories for %s", d.namespace, found.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration())
	}
	return c
}

// clock starts a workflow that nobody runs, which needs the same rights as a scheduler does, and
// compares its start time with the times before and after.
func (d doctor) clock(ctx context.Context) Check {
	c := Check{Name: "clock"}
	before := time.Now()
	run, err := d.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: d.names.prefix + "/doctor", TaskQueue: d.names.prefix + "/doctor", WorkflowExecutionTimeout: time.Minute,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING,
	}, "PerdureDoctor")
	if err != nil {
		c.Detail, c.Fix = err.Error(), "Give this client the right to start workflows in the namespace."
		return c
	}
	after := time.Now()
	found, err := d.client.DescribeWorkflowExecution(ctx, run.GetID(), run.GetRunID())
	if stop := d.client.TerminateWorkflow(ctx, run.GetID(), run.GetRunID(), "examined"); err == nil {
		err = stop
	}
	if err != nil {
		c.Detail, c.Fix = err.Error(), "Give this client the right to read and terminate workflows in the namespace."
		return c
	}
	skew := skewOf(before, found.GetWorkflowExecutionInfo().GetStartTime().AsTime(), after)
	if c.OK = skew.Abs() <= mostSkew; !c.OK {
		c.Fix = "Synchronize the clocks of this machine and of Temporal's, for instance with chrony."
	}
	c.Detail = fmt.Sprintf("the server's clock differs by %s", skew.Round(time.Millisecond))
	return c
}

// skewOf returns how far the clock of a server, which read at between before and after, is ahead at
// least.
func skewOf(before, at, after time.Time) time.Duration {
	switch {
	case at.Before(before):
		return at.Sub(before)
	case at.After(after):
		return at.Sub(after)
	}
	return 0
}

// maintenance looks for the maintenance workflow.
func (d doctor) maintenance(ctx context.Context) Check {
	c := Check{Name: "maintenance", Fix: "Start a worker: each makes sure of the workflow once a minute."}
	found, err := d.client.DescribeWorkflowExecution(ctx, d.names.maintenance(), "")
	var missing *serviceerror.NotFound
	switch {
	case errors.As(err, &missing):
		c.Detail, c.NoWorker = "the workflow was never started", true
	case err != nil:
		c.Detail = err.Error()
	default:
		status := found.GetWorkflowExecutionInfo().GetStatus()
		c.OK, c.Detail = status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING, "the workflow is "+strings.ToLower(status.String())
	}
	if c.OK {
		c.Fix = ""
	}
	return c
}

// pollers counts the processes that poll a task queue.
func (d doctor) pollers(ctx context.Context, queue string) Check {
	c := Check{Name: "task queue " + queue, Fix: "Start a worker that polls this queue."}
	found, err := d.client.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace: d.namespace, TaskQueue: &taskqueue.TaskQueue{Name: queue}, TaskQueueType: enums.TASK_QUEUE_TYPE_ACTIVITY,
	})
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	identities := map[string]bool{}
	for _, p := range found.GetPollers() {
		identities[p.GetIdentity()] = true
	}
	c.OK, c.Detail = len(identities) > 0, fmt.Sprintf("workers that poll: %d", len(identities))
	if c.NoWorker = !c.OK; c.OK {
		c.Fix = ""
	}
	return c
}
