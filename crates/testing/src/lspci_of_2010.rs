//! The listing of SARA's D1.3, section 5: a 10 Gb/s card of 2.5 GT/s and eight lanes in a slot of four.

/// SARA D1.3 §5: a card that is a “PCIe v2.0 (2.5GT/s)”, in a slot with four lanes. Without indentation, as
/// the document has it.
pub const CARD: &str = "\
04:00.0 Ethernet controller: Intel Corporation 82598EB 10-Gigabit AF Network Connection (rev 01)
Subsystem: Intel Corporation Device a05f
Control: I/O+ Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr- Stepping- SERR- FastB2B- DisINTx+
Status: Cap+ 66MHz- UDF- FastB2B- ParErr- DEVSEL=fast >TAbort- <TAbort- <MAbort- >SERR- <PERR- INTx-
Capabilities: [40] Power Management version 3
        Status: D0 PME-Enable- DSel=0 DScale=1 PME-
Capabilities: [60] MSI-X: Enable+ Mask- TabSize=18
        Vector table: BAR=3 offset=00000000
Capabilities: [a0] Express (v2) Endpoint, MSI 00
        DevCap: MaxPayload 256 bytes, PhantFunc 0, Latency L0s <512ns, L1 <64us
        DevCtl: Report errors: Correctable+ Non-Fatal+ Fatal+ Unsupported+
                RlxdOrd+ ExtTag- PhantFunc- AuxPwr- NoSnoop+
                MaxPayload 256 bytes, MaxReadReq 512 bytes
        LnkCap: Port #1, Speed 2.5GT/s, Width x8, ASPM L0s L1, Latency L0 <4us, L1 <64us
        LnkCtl: ASPM Disabled; RCB 64 bytes Disabled- Retrain- CommClk+
        LnkSta: Speed 2.5GT/s, Width x4, TrErr- Train- SlotClk+ DLActive- BWMgmt- ABWMgmt-
Kernel driver in use: ixgbe
";

/// The same section: where the card is …
pub const TREE: &str = "\
$ lspci -vt
-[0000:00]--+-00.0 Intel Corporation 5520 I/O Hub to ESI Port
  +-01.0-[0000:01]---+00.0 Broadcom Corporation NetXtreme II BCM5709 Gigabit Ethernet
  | \\-00.1 Broadcom Corporation NetXtreme II BCM5709 Gigabit Ethernet
  +-03.0-[0000:03]--
  +-04.0-[0000:04]----00.0 Intel Corporation 82598EB 10-Gigabit AF Network Connection
";

/// … and what its slot can do.
pub const SLOT: &str = "\
$ sudo lspci -vv -s 04
00:04.0 PCI bridge: Intel Corporation 5520/X58 I/O Hub PCI Express Root Port 4 (rev 13)
.....
        LnkCap: Port #4, Speed 5GT/s, Width x4, ASPM L0s L1, Latency L0 <512ns, L1 <64us
        LnkCtl: ASPM Disabled; RCB 64 bytes Disabled- Retrain- CommClk+
        LnkSta: Speed 2.5GT/s, Width x4, TrErr- Train- SlotClk+ DLActive+ BWMgmt- ABWMgmt-
";
