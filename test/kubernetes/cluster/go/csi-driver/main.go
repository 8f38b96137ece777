// A CSI driver for a cluster of one node. Each volume is a sparse file with XFS on a loop device: its
// size is enforced, and it grows while it is mounted, which ext4 refuses without CAP_SYS_RESOURCE.
// A snapshot is a copy of the file. The driver registers itself with the kubelet.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// The smallest file that mkfs.xfs accepts, in bytes.
const leastSize = 32 << 20

var (
	driver = flag.String("driver", "", "name of the driver")
	node   = flag.String("node", "", "name of the node")
	folder = flag.String("folder", "", "folder of the volumes and snapshots")
	socket = flag.String("socket", "", "socket of the driver")
	plugin = flag.String("registration", "", "socket by which the kubelet finds the driver")
)

type server struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer
	// Serializes the calls that change files or mounts.
	mu sync.Mutex
}

func run(name string, args ...string) error {
	output, err := exec.Command(name, args...).CombinedOutput()
	log.Printf("%s %s: %v %s", name, strings.Join(args, " "), err, output)
	if err != nil {
		return status.Errorf(codes.Internal, "%s: %v: %s", name, err, output)
	}
	return nil
}

// id derives the same id from the same name, as CreateVolume and CreateSnapshot are repeated.
func id(kind, name string) string {
	hash := sha256.Sum256([]byte(name))
	return kind + "-" + hex.EncodeToString(hash[:12])
}

func fileOf(id string) string { return filepath.Join(*folder, filepath.Base(id)+".xfs") }

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func isMountPoint(path string) bool { return exec.Command("mountpoint", "-q", path).Run() == nil }

func (s *server) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: *driver, VendorVersion: "1"}, nil
}

func (s *server) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

func (s *server) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{
		{Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{
			Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}}},
		{Type: &csi.PluginCapability_VolumeExpansion_{VolumeExpansion: &csi.PluginCapability_VolumeExpansion{
			Type: csi.PluginCapability_VolumeExpansion_ONLINE}}},
	}}, nil
}

func (s *server) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	response := &csi.ControllerGetCapabilitiesResponse{}
	for _, verb := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
	} {
		response.Capabilities = append(response.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: verb}}})
	}
	return response, nil
}

func (s *server) CreateVolume(_ context.Context, request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := max(request.GetCapacityRange().GetRequiredBytes(), leastSize)
	volume := id("volume", request.Name)
	if !exists(fileOf(volume)) {
		var source string
		if from := request.GetVolumeContentSource(); from.GetSnapshot() != nil {
			source = fileOf(from.GetSnapshot().SnapshotId)
		} else if from.GetVolume() != nil {
			source = fileOf(from.GetVolume().VolumeId)
		}
		var err error
		if size, err = makeFile(fileOf(volume), source, size); err != nil {
			return nil, err
		}
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: volume, CapacityBytes: size, ContentSource: request.VolumeContentSource}}, nil
}

// makeFile makes an empty file system, or a copy of another file of at least its size.
// NodePublishVolume grows the file system of a copy.
func makeFile(path, source string, size int64) (int64, error) {
	unfinished := path + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return 0, err
	}
	if source != "" {
		if err := run("cp", "--sparse=always", "--reflink=auto", source, unfinished); err != nil {
			return 0, err
		}
		info, err := os.Stat(unfinished)
		if err != nil {
			return 0, err
		}
		size = max(size, info.Size())
	} else if err := os.WriteFile(unfinished, nil, 0o600); err != nil {
		return 0, err
	}
	if err := os.Truncate(unfinished, size); err != nil {
		return 0, err
	}
	if source == "" {
		if err := run("mkfs.xfs", "-q", "--unsupported", unfinished); err != nil {
			return 0, err
		}
	}
	return size, os.Rename(unfinished, path)
}

func (s *server) DeleteVolume(_ context.Context, request *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	return &csi.DeleteVolumeResponse{}, os.RemoveAll(fileOf(request.VolumeId))
}

func (s *server) ValidateVolumeCapabilities(_ context.Context, request *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeCapabilities: request.VolumeCapabilities}}, nil
}

func (s *server) ControllerExpandVolume(_ context.Context, request *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	size := request.GetCapacityRange().GetRequiredBytes()
	info, err := os.Stat(fileOf(request.VolumeId))
	if err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	if info.Size() < size {
		if err := os.Truncate(fileOf(request.VolumeId), size); err != nil {
			return nil, err
		}
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: max(size, info.Size()), NodeExpansionRequired: true}, nil
}

type snapshot struct {
	Volume string
	Size   int64
	At     time.Time
}

func (s *server) CreateSnapshot(_ context.Context, request *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := id("snapshot", request.Name)
	description := fileOf(name) + ".json"
	var made snapshot
	if text, err := os.ReadFile(description); err == nil {
		if err := json.Unmarshal(text, &made); err != nil {
			return nil, err
		}
	} else {
		info, err := os.Stat(fileOf(request.SourceVolumeId))
		if err != nil {
			return nil, status.Error(codes.NotFound, err.Error())
		}
		if err := copyFrozen(request.SourceVolumeId, fileOf(name)); err != nil {
			return nil, err
		}
		made = snapshot{request.SourceVolumeId, info.Size(), time.Now()}
		text, err := json.Marshal(made)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(description, text, 0o600); err != nil {
			return nil, err
		}
	}
	return &csi.CreateSnapshotResponse{Snapshot: &csi.Snapshot{SnapshotId: name, SourceVolumeId: made.Volume,
		SizeBytes: made.Size, CreationTime: timestamppb.New(made.At), ReadyToUse: true}}, nil
}

func copyFrozen(volume, target string) error {
	if _, at := mountOf(volume); at != "" {
		if err := run("fsfreeze", "--freeze", at); err != nil {
			return err
		}
		defer run("fsfreeze", "--unfreeze", at)
	}
	return run("cp", "--sparse=always", "--reflink=auto", fileOf(volume), target)
}

func (s *server) DeleteSnapshot(_ context.Context, request *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	file := fileOf(request.SnapshotId)
	return &csi.DeleteSnapshotResponse{}, errors.Join(os.RemoveAll(file), os.RemoveAll(file+".json"))
}

// mountOf returns the loop device of a volume and one of its mount points, both empty when it is not
// mounted.
func mountOf(volume string) (device, at string) {
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, file := range files {
		backing, _ := os.ReadFile(file)
		if filepath.Base(strings.TrimSpace(string(backing))) == filepath.Base(fileOf(volume)) {
			device = "/dev/" + strings.Split(file, "/")[3]
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); device != "" && fields[0] == device {
			return device, fields[1]
		}
	}
	return "", ""
}

func (s *server) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: *node}, nil
}

func (s *server) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	response := &csi.NodeGetCapabilitiesResponse{}
	for _, verb := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
	} {
		response.Capabilities = append(response.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: verb}}})
	}
	return response, nil
}

func (s *server) NodePublishVolume(_ context.Context, request *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	target := request.TargetPath
	if err := os.MkdirAll(target, 0o750); err != nil {
		return nil, err
	}
	if isMountPoint(target) {
		return &csi.NodePublishVolumeResponse{}, nil
	}
	if _, at := mountOf(request.VolumeId); at != "" { // of another Pod
		if err := run("mount", "--bind", at, target); err != nil {
			return nil, err
		}
	} else {
		if err := run("mount", "-o", "loop,nouuid", "-t", "xfs", fileOf(request.VolumeId), target); err != nil {
			return nil, err
		}
		// The file may have grown while it was not mounted.
		if err := run("xfs_growfs", "-d", target); err != nil {
			return nil, err
		}
	}
	if request.Readonly {
		if err := run("mount", "-o", "remount,bind,ro", target); err != nil {
			return nil, err
		}
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func (s *server) NodeUnpublishVolume(_ context.Context, request *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if isMountPoint(request.TargetPath) {
		if err := run("umount", request.TargetPath); err != nil {
			return nil, err
		}
	}
	if err := os.Remove(request.TargetPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

func (s *server) NodeExpandVolume(_ context.Context, request *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	device, at := mountOf(request.VolumeId)
	if at == "" {
		return nil, status.Errorf(codes.NotFound, "%s is not mounted", request.VolumeId)
	}
	if err := run("losetup", "--set-capacity", device); err != nil {
		return nil, err
	}
	if err := run("xfs_growfs", "-d", at); err != nil {
		return nil, err
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: request.GetCapacityRange().GetRequiredBytes()}, nil
}

func (s *server) NodeGetVolumeStats(_ context.Context, request *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	var of syscall.Statfs_t
	if err := syscall.Statfs(request.VolumePath, &of); err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	block := of.Bsize
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		{Unit: csi.VolumeUsage_BYTES, Total: int64(of.Blocks) * block, Available: int64(of.Bavail) * block,
			Used: int64(of.Blocks-of.Bfree) * block},
		{Unit: csi.VolumeUsage_INODES, Total: int64(of.Files), Available: int64(of.Ffree),
			Used: int64(of.Files - of.Ffree)}}}, nil
}

func (s *server) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: *driver, Endpoint: *socket,
		SupportedVersions: []string{"1.0.0"}}, nil
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
	if err := os.MkdirAll(*folder, 0o700); err != nil {
		log.Fatal(err)
	}
	s := &server{}
	calls := grpc.NewServer(grpc.UnaryInterceptor(
		func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			response, err := handle(ctx, request)
			if err != nil {
				log.Printf("%s: %v", info.FullMethod, err)
			}
			return response, err
		}))
	csi.RegisterIdentityServer(calls, s)
	csi.RegisterControllerServer(calls, s)
	csi.RegisterNodeServer(calls, s)
	registered := grpc.NewServer()
	registration.RegisterRegistrationServer(registered, s)
	go serve(registered, *plugin)
	serve(calls, *socket)
}
