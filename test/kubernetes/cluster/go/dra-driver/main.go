// Dra-driver prepares devices that no hardware is behind: it changes nothing in the container. Tests
// write the ResourceSlices that offer them.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"os"
	"path/filepath"

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
)

type server struct {
	dra.UnimplementedDRAPluginServer
	registration.UnimplementedRegistrationServer
	client kubernetes.Interface
}

func (s *server) prepare(ctx context.Context, claim *dra.Claim) ([]*dra.Device, error) {
	found, err := s.client.ResourceV1().ResourceClaims(claim.Namespace).Get(ctx, claim.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if string(found.UID) != claim.Uid || found.Status.Allocation == nil {
		return nil, errors.New("the claim is not allocated")
	}
	var given []*dra.Device
	for _, result := range found.Status.Allocation.Devices.Results {
		if result.Driver == *driver {
			given = append(given, &dra.Device{RequestNames: []string{result.Request}, PoolName: result.Pool,
				DeviceName: result.Device})
		}
	}
	return given, nil
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
		answer.Claims[claim.Uid] = &dra.NodeUnprepareResourceResponse{}
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
