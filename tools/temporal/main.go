// Command temporal is a Temporal server for tests: all services in one process, and its data in one
// file. It is a process of its own so that a test can kill it, pause it, and delete its data.
//
// It listens on the loopback interface only, and prints "ready ADDRESS" when a namespace can be
// used. SIGTERM stops it. It is not for production: one shard, no authorization, no replicas.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strconv"

	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	schema "go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"
)

const loopback = "127.0.0.1"

// options are the flags of the command.
type options struct {
	address   string
	data      string
	namespace string
	level     string
}

func main() {
	var o options
	flag.StringVar(&o.address, "address", loopback+":0", "the loopback address to listen on; port 0: any free port")
	flag.StringVar(&o.data, "data", "", "the file of the database; created when it is missing")
	flag.StringVar(&o.namespace, "namespace", "default", "a namespace to register")
	flag.StringVar(&o.level, "log", "error", "the lowest level of messages on standard error")
	flag.Parse()
	if err := serve(o); err != nil {
		fmt.Fprintln(os.Stderr, "temporal:", err)
		os.Exit(1)
	}
}

// serve runs the server until a signal stops it.
func serve(o options) error {
	if o.data == "" || flag.NArg() > 0 {
		return errors.New("-data FILE is required, and there are no arguments: the file holds the database")
	}
	port, err := portOf(o.address)
	if err != nil {
		return err
	}
	cfg, err := configOf(port, o.data)
	if err != nil {
		return err
	}
	if err := prepare(cfg.Persistence.DataStores[sqlite.PluginName].SQL, o); err != nil {
		return err
	}
	logger := log.NewZapLogger(log.BuildZapLogger(log.Config{Level: o.level}))
	server, err := temporal.NewServer(
		temporal.WithConfig(cfg),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithLogger(logger),
		temporal.WithCustomMetricsHandler(metrics.NoopMetricsHandler),
	)
	if err != nil {
		return fmt.Errorf("configure the server: %w", err)
	}
	stop := temporal.InterruptCh()
	if err := server.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	fmt.Printf("ready %s server %s\n", cfg.PublicClient.HostPort, headers.ServerVersion)
	<-stop
	return server.Stop()
}

// portOf returns the port of an address, which must be on the loopback interface.
func portOf(address string) (int, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil || host != loopback {
		return 0, fmt.Errorf("-address %q: want %s:PORT, since the server has no authorization", address, loopback)
	}
	port, err := strconv.Atoi(text)
	if err != nil || port != 0 {
		return port, err
	}
	ports, err := freePorts(1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}

// freePorts returns ports that nobody listens on. All are open at once, so they differ.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", loopback+":0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// configOf returns the configuration of a server with one shard and one database.
func configOf(port int, data string) (*config.Config, error) {
	ports, err := freePorts(7)
	if err != nil {
		return nil, err
	}
	service := func(grpc, membership int) config.Service {
		return config.Service{RPC: config.RPC{GRPCPort: grpc, MembershipPort: membership, BindOnIP: loopback}}
	}
	front := net.JoinHostPort(loopback, strconv.Itoa(port))
	disabled := config.ArchivalNamespaceDefaults{
		History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
		Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
	}
	return &config.Config{
		Global: config.Global{Membership: config.Membership{BroadcastAddress: loopback}},
		Persistence: config.Persistence{
			DefaultStore: sqlite.PluginName, VisibilityStore: sqlite.PluginName, NumHistoryShards: 1,
			DataStores: map[string]config.DataStore{sqlite.PluginName: {SQL: &config.SQL{
				PluginName: sqlite.PluginName, DatabaseName: data,
				ConnectAttributes: map[string]string{"mode": "rwc", "_journal_mode": "wal", "_synchronous": "off"},
			}}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10, MasterClusterName: "active", CurrentClusterName: "active",
			ClusterInformation: map[string]cluster.ClusterInformation{
				"active": {Enabled: true, InitialFailoverVersion: 1, RPCAddress: front},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services: map[string]config.Service{
			"frontend": service(port, ports[0]), "history": service(ports[1], ports[2]),
			"matching": service(ports[3], ports[4]), "worker": service(ports[5], ports[6]),
		},
		Archival: config.Archival{
			History: config.HistoryArchival{State: "disabled"}, Visibility: config.VisibilityArchival{State: "disabled"},
		},
		PublicClient:      config.PublicClient{HostPort: front},
		NamespaceDefaults: config.NamespaceDefaults{Archival: disabled},
	}, nil
}

// prepare creates the database when it is missing, and the namespace.
func prepare(db *config.SQL, o options) error {
	if _, err := os.Stat(o.data); errors.Is(err, os.ErrNotExist) {
		if err := schema.SetupSchema(db); err != nil {
			return fmt.Errorf("create the database: %w", err)
		}
	}
	namespace, err := schema.NewNamespaceConfig("active", o.namespace, false, nil)
	if err != nil {
		return fmt.Errorf("namespace %q: %w", o.namespace, err)
	}
	if err := schema.CreateNamespaces(db, namespace); err != nil {
		return fmt.Errorf("register namespace %q: %w", o.namespace, err)
	}
	return nil
}
