// Dra-driver prepares devices that no hardware is behind: a container finds the names of those that
// it was given in its environment. Tests write the ResourceSlices that offer them.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

var (
	driver = flag.String("driver", "", "name of the driver")
	config = flag.String("kubeconfig", "", "file with the login to the API server")
	socket = flag.String("socket", "", "socket of the driver")
	plugin = flag.String("registration", "", "socket by which the kubelet finds the driver")
	specs  = flag.String("specs", "/var/run/cdi", "folder of CDI specs")
)

type server struct {
	dra.UnimplementedDRAPluginServer
	registration.UnimplementedRegistrationServer
	client kubernetes.Interface
}

type edits struct {
	Env []string `json:"env"`
}

type device struct {
	Name  string `json:"name"`
	Edits edits  `json:"containerEdits"`
}

func (s *server) specOf(uid string) string { return filepath.Join(*specs, "claim-"+uid+".json") }

func (s *server) prepare(ctx context.Context, claim *dra.Claim) ([]*dra.Device, error) {
	found, err := s.client.ResourceV1().ResourceClaims(claim.Namespace).Get(ctx, claim.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if string(found.UID) != claim.Uid || found.Status.Allocation == nil {
		return nil, errors.New("the claim is not allocated")
	}
	kind := *driver + "/claim"
	var given []*dra.Device
	var described []device
	for _, result := range found.Status.Allocation.Devices.Results {
		if result.Driver != *driver {
			continue
		}
		name := claim.Uid + "-" + result.Device
		variable := "DEVICE_" + strings.ToUpper(strings.ReplaceAll(result.Device, "-", "_")) + "=" + result.Pool
		described = append(described, device{Name: name, Edits: edits{Env: []string{variable}}})
		given = append(given, &dra.Device{RequestNames: []string{result.Request}, PoolName: result.Pool,
			DeviceName: result.Device, CdiDeviceIds: []string{kind + "=" + name}})
	}
	text, err := json.Marshal(map[string]any{"cdiVersion": "0.6.0", "kind": kind, "devices": described})
	if err != nil {
		return nil, err
	}
	return given, os.WriteFile(s.specOf(claim.Uid), text, 0o644)
}

func (s *server) NodePrepareResources(ctx context.Context, q *dra.NodePrepareResourcesRequest) (*dra.NodePrepareResourcesResponse, error) {
	answer := &dra.NodePrepareResourcesResponse{Claims: map[string]*dra.NodePrepareResourceResponse{}}
	for _, claim := range q.Claims {
		devices, err := s.prepare(ctx, claim)
		one := &dra.NodePrepareResourceResponse{Devices: devices}
		if err != nil {
			one.Error = err.Error()
		}
		log.Printf("prepared %s: %v %v", claim.Name, devices, err)
		answer.Claims[claim.Uid] = one
	}
	return answer, nil
}

func (s *server) NodeUnprepareResources(_ context.Context, q *dra.NodeUnprepareResourcesRequest) (*dra.NodeUnprepareResourcesResponse, error) {
	answer := &dra.NodeUnprepareResourcesResponse{Claims: map[string]*dra.NodeUnprepareResourceResponse{}}
	for _, claim := range q.Claims {
		one := &dra.NodeUnprepareResourceResponse{}
		if err := os.RemoveAll(s.specOf(claim.Uid)); err != nil {
			one.Error = err.Error()
		}
		answer.Claims[claim.Uid] = one
	}
	return answer, nil
}

func (s *server) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.DRAPlugin, Name: *driver, Endpoint: *socket,
		SupportedVersions: []string{dra.DRAPluginService}}, nil
}

func (s *server) NotifyRegistrationStatus(_ context.Context, q *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	log.Printf("registered: %v %s", q.PluginRegistered, q.Error)
	return &registration.RegistrationStatusResponse{}, nil
}

func serve(on *grpc.Server, path string) {
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.RemoveAll(path)); err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(on.Serve(listener))
}

func main() {
	flag.Parse()
	if err := os.MkdirAll(*specs, 0o755); err != nil {
		log.Fatal(err)
	}
	login, err := clientcmd.BuildConfigFromFlags("", *config)
	if err != nil {
		log.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(login)
	if err != nil {
		log.Fatal(err)
	}
	s := &server{client: client}
	calls, registered := grpc.NewServer(), grpc.NewServer()
	dra.RegisterDRAPluginServer(calls, s)
	registration.RegisterRegistrationServer(registered, s)
	go serve(registered, *plugin)
	serve(calls, *socket)
}
